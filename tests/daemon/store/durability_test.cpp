// What the store promises about files: whole or not at all, for their owner alone, and refused rather than
// guessed.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "daemon/store/backup.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/idempotency.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/folder_lock.hpp"
#include "daemon/store/sqlite/migrate.hpp"
#include "tests/daemon/store/fault_vfs.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;
namespace fs = std::filesystem;

namespace {

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

std::string put(Store& store, const std::string& bytes) {
  return write(store, [&](Tx& tx) { return put_blob(tx, bytes, "text/plain", 1); });
}

Error refusal(const StoreOptions& options) {
  const auto opened = Store::open(options);
  REQUIRE(!opened);
  return opened.error();
}

}  // namespace

TEST_CASE("a database is copied as it is at one moment, while writes go on") {
  TempDir dir;
  auto store = open_store(dir.path() / "data");
  const std::string first = put(*store, "first");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) put(*store, "blob " + std::to_string(i));
  });
  for (int i = 0; i < 5; ++i) {
    const fs::path folder = dir.path() / ("copy" + std::to_string(i));
    fs::create_directory(folder);
    must(copy_database(dir.path() / "data", folder / "driftgate.db"));
    CHECK(mode_of(folder / "driftgate.db") == 0600);
    must(check_database(folder / "driftgate.db"));
    auto copy = must(Store::open({.data_dir = folder, .read_only = true}));
    CHECK(read(*copy, [&](Reader& reader) { return find_blob(reader, first); })->bytes == "first");
  }
  stop = true;
  writer.join();
}

TEST_CASE("a copy takes no file's place, and leaves nothing when it fails") {
  TempDir dir;
  { put(*open_store(dir.path()), "x"); }
  const fs::path target = dir.path() / "copy.db";
  std::ofstream(target) << "theirs";
  CHECK(copy_database(dir.path(), target).error().code == ErrorCode::already_exists);
  CHECK(content_of(target) == "theirs");
  fs::remove(target);
  fs::create_symlink(dir.path() / "elsewhere", target);
  CHECK(!copy_database(dir.path(), target));
  CHECK(!fs::exists(dir.path() / "elsewhere"));
  fs::remove(target);
  CHECK(!copy_database(dir.path() / "none", target));
  CHECK(!fs::exists(target));
  CHECK(copy_file_durably(dir.path() / "none", target).error().code == ErrorCode::io);
  CHECK(!fs::exists(target));
  must(copy_file_durably(dir.path() / "driftgate.db", target));
  CHECK(content_of(target) == content_of(dir.path() / "driftgate.db"));
  CHECK(copy_file_durably(dir.path() / "driftgate.db", target).error().code == ErrorCode::already_exists);
}

TEST_CASE("a damaged database is told from a sound one, from none and from one that is no database") {
  TempDir dir;
  {
    auto store = open_store(dir.path());
    for (int i = 0; i < 200; ++i) put(*store, std::string(500, 'x') + std::to_string(i));
  }
  const fs::path path = dir.path() / "driftgate.db";
  must(check_database(path));
  CHECK(check_database(dir.path() / "none").error().code == ErrorCode::io);
  std::ofstream(dir.path() / "text") << std::string(8'192, 'x');
  CHECK(check_database(dir.path() / "text").error().code == ErrorCode::corrupt);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(fs::file_size(path)) - 3 * 4'096);
  file << std::string(4'096, '\x5a');
  file.close();
  const auto damaged = check_database(path);
  REQUIRE(!damaged);
  CHECK(damaged.error().code == ErrorCode::corrupt);
  CHECK(damaged.error().message.find(path.string()) != std::string::npos);
}

TEST_CASE("a blob whose bytes were changed is refused, and is not taken for another") {
  TempDir dir;
  std::string digest;
  { digest = put(*open_store(dir.path()), "evidence"); }
  change_database(dir.path(), "UPDATE blobs SET bytes = CAST('evidencf' AS BLOB)");
  auto store = open_store(dir.path());
  const auto found = store->read([&](Reader& reader) { return find_blob(reader, digest); });
  REQUIRE(!found);
  CHECK(found.error().code == ErrorCode::corrupt);
  CHECK(found.error().message == "blob " + digest + " no longer has that digest: restore a backup");
}

TEST_CASE("a list of migrations that was changed is refused, and the database left as it is") {
  const std::tuple<const char*, ErrorCode, const char*> changes[] = {
      {"UPDATE schema_migrations SET checksum = 'sha256:0'", ErrorCode::corrupt,
       "migration 1 of the database (0001_initial) is not the one of this program (0001_initial)"},
      {"DELETE FROM schema_migrations WHERE version = 2", ErrorCode::corrupt, "migration 3 of the database"},
      {"INSERT INTO schema_migrations SELECT 99, 'later', checksum, 1 FROM schema_migrations LIMIT 1",
       ErrorCode::unsupported, "the database has schema version 99"},
      {"PRAGMA application_id = 7", ErrorCode::corrupt, "the database file belongs to another program"}};
  for (const auto& [script, code, words] : changes) {
    CAPTURE(script);
    TempDir dir;
    { put(*open_store(dir.path()), "x"); }
    change_database(dir.path(), script);
    const std::string before = content_of(dir.path() / "driftgate.db");
    for (const bool read_only : {false, true}) {
      const auto error = refusal({.data_dir = dir.path(), .read_only = read_only});
      CHECK(error.code == code);
      CHECK_MESSAGE(error.describe().find(words) != std::string::npos, error.describe());
    }
    CHECK(content_of(dir.path() / "driftgate.db") == before);
  }
}

TEST_CASE("a database whose list of migrations is empty or gone is not migrated again") {
  for (const char* script : {"DELETE FROM schema_migrations", "DROP TABLE schema_migrations"}) {
    CAPTURE(script);
    TempDir dir;
    std::string digest;
    { digest = put(*open_store(dir.path()), "kept"); }
    change_database(dir.path(), script);
    CHECK(!Store::open({.data_dir = dir.path()}));
    auto raw =
        must(Connection::open((dir.path() / "driftgate.db").string(), Connection::Mode::read_only, ""));
    Reader reader(*raw);
    CHECK(must(find_blob(reader, digest))->bytes == "kept");
  }
}

TEST_CASE("a store is opened on a folder that it can hold, with readers and a queue") {
  TempDir dir;
  CHECK(refusal({.data_dir = dir.path(), .queue_limit = 0}).code == ErrorCode::invalid_argument);
  CHECK(refusal({.data_dir = dir.path(), .readers = 0}).code == ErrorCode::invalid_argument);
  std::ofstream(dir.path() / "file") << "x";
  CHECK(refusal({.data_dir = dir.path() / "file"}).code == ErrorCode::io);
  CHECK(refusal({.data_dir = dir.path() / "file" / "below"}).message.find("cannot create the data folder") ==
        0);
  std::ofstream(dir.path() / "theirs") << "";
  fs::create_directory(dir.path() / "linked");
  fs::create_symlink(dir.path() / "theirs", dir.path() / "linked" / "driftgate.db");
  CHECK(refusal({.data_dir = dir.path() / "linked"}).message.find("cannot open the database") == 0);
  CHECK(content_of(dir.path() / "theirs").empty());
}

TEST_CASE("the lock of a folder ends with its holder, however that ends") {
  TempDir dir;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto lock = FolderLock::take(dir.path());
    ::_exit(lock ? 7 : 8);  // no destructor runs
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 7);
  auto lock = must(FolderLock::take(dir.path()));
  CHECK(content_of(dir.path() / "driftgate.lock") == std::to_string(::getpid()));
  auto moved = std::move(lock);
  const auto second = FolderLock::take(dir.path());
  REQUIRE(!second);
  CHECK(second.error().code == ErrorCode::conflict);
  CHECK(second.error().message.find("another driftgate (process " + std::to_string(::getpid()) + ") uses") ==
        0);
  CHECK(FolderLock::take(dir.path() / "none").error().code == ErrorCode::io);
  fs::create_directory(dir.path() / "linked");
  fs::create_symlink(dir.path() / "victim", dir.path() / "linked" / "driftgate.lock");
  CHECK(!FolderLock::take(dir.path() / "linked"));
  CHECK(!fs::exists(dir.path() / "victim"));
}

TEST_CASE("an answer is kept with its effect or not at all, also when the disk is full") {
  TempDir dir;
  Faults& faults = fault_vfs();
  auto store = must(Store::open({.data_dir = dir.path(), .vfs = "fault"}));
  const KeyedRequest request{"ada", "key", "digest"};
  const auto both = [&] {
    return store->write("make", [&](Tx& tx) -> Result<void> {
      auto made = put_blob(tx, "effect", "text/plain", 1);
      if (!made) return std::unexpected(made.error());
      return idempotency_keep(tx, request, {.status = 201, .effect = "it"}, 1);
    });
  };
  const auto kept = [&] {
    return read(*store, [&](Reader& reader) { return idempotency_find(reader, request); }).has_value();
  };
  faults.fail_write_full = 1;
  CHECK(both().error().code == ErrorCode::storage_full);
  CHECK(!kept());
  faults.fail_write_full = 0;
  must(both());
  CHECK(kept());
  CHECK(both().error().code == ErrorCode::already_exists);
}

TEST_CASE_FIXTURE(StoreFixture, "an idempotency key belongs to one person, and is as long as it may be") {
  const std::string longest(kMaxIdempotencyKeyBytes, 'k');
  for (const std::string who : {"ada", "bob"}) {
    write(*store, [&](Tx& tx) {
      return idempotency_keep(tx, {who, longest, "d"}, {.status = 200, .body = who}, 1);
    });
  }
  const auto find = [&](const char* who, const std::string& key, const char* digest) {
    return store->read([&](Reader& reader) { return idempotency_find(reader, {who, key, digest}); });
  };
  CHECK(must(find("ada", longest, "d"))->body == "ada");
  CHECK(must(find("bob", longest, "d"))->body == "bob");
  CHECK(!must(find("cleo", longest, "d")));
  CHECK(find("ada", longest, "e").error().message.find("was used with another request: use a new key") !=
        std::string::npos);
  CHECK(find("ada", longest + "k", "d").error().message ==
        "an Idempotency-Key must have 1 to 255 characters");
}
