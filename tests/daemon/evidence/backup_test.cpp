#include "daemon/evidence/backup.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/log/epochs.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
namespace fs = std::filesystem;

namespace {

/// A data folder whose log gets entries, and a folder of backups.
struct Fixture {
  TempDir dir;
  fs::path data = dir.path() / "data";
  fs::path backups = dir.path() / "backups";

  void add_entries(int count) {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    for (int i = 0; i < count; ++i) append_one(*store, draft(i));
    heads->stop();
  }

  Backup back_up(const std::string& name) {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    return must(make_backup(*store, *heads, backups, name));
  }

  Result<Restored> restore(const std::string& name, bool accept_loss = false,
                           const std::string& reason = {}) {
    return restore_backup({.backup = backups / name,
                           .data_dir = data,
                           .head = {},
                           .accept_loss = accept_loss,
                           .reason = reason,
                           .now_us = 77});
  }

  std::uint64_t size() {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    return read(*store, [](store::Reader& reader) { return tree_size(reader); });
  }
};

}  // namespace

TEST_CASE_FIXTURE(
    Fixture, "a backup of a running daemon holds its log and the signed head of it, for its owner only") {
  add_entries(70);
  auto store = open_store(data);
  auto heads = must(HeadPublisher::start(*store, {}));
  const Backup backup = must(make_backup(*store, *heads, backups, "one"));
  CHECK(backup.tree_size == 70);
  append_one(*store, draft(1));
  CHECK(content_of(backup.folder / kBackupHead) == must(heads->signed_head_at(70)));
  struct stat status {};
  REQUIRE(::stat((backup.folder / kBackupDatabase).c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  REQUIRE(::stat(backup.folder.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(make_backup(*store, *heads, backups, "one").error().code == store::ErrorCode::already_exists);
  for (const char* name : {"", "../x", ".x", "a/b"}) {
    CHECK(make_backup(*store, *heads, backups, name).error().code == store::ErrorCode::invalid_argument);
  }
}

TEST_CASE_FIXTURE(Fixture, "the newest backup is restored, and what was there is kept") {
  add_entries(70);
  back_up("one");
  const auto restored = restore("one");
  REQUIRE_MESSAGE(restored, restored.error().describe());
  CHECK(restored->tree_size == 70);
  CHECK(restored->epoch == 1);
  CHECK(fs::exists(restored->set_aside / kBackupDatabase));
  CHECK(size() == 70);
  add_entries(3);
  CHECK(size() == 73);
}

TEST_CASE_FIXTURE(Fixture, "nobody is signed in to the page after a restore") {
  add_entries(3);
  change_database(data,
                  "PRAGMA foreign_keys = OFF;"
                  "INSERT INTO sessions VALUES('s', zeroblob(32), 't', 1, 2, zeroblob(32))");
  back_up("one");
  REQUIRE(restore("one").has_value());
  auto store = open_store(data);
  CHECK(read(*store, [](store::Reader& reader) {
          return reader.one({"count sessions", "SELECT count(*) FROM sessions"}, {},
                            [](const store::Row& row) { return row.integer(0); });
        }) == 0);
}

TEST_CASE_FIXTURE(Fixture, "a restore is refused while a daemon holds the folder") {
  add_entries(3);
  back_up("one");
  auto store = open_store(data);
  CHECK(restore("one").error().code == store::ErrorCode::conflict);
}

TEST_CASE_FIXTURE(Fixture, "an older backup is a rollback, and changes nothing") {
  add_entries(70);
  back_up("one");
  add_entries(5);
  const auto refused = restore("one");
  REQUIRE(!refused);
  CHECK(refused.error().describe().find("rollback detected") != std::string::npos);
  CHECK(size() == 75);
}

TEST_CASE_FIXTURE(Fixture, "an accepted loss begins an epoch: another origin, and an entry with both heads") {
  add_entries(70);
  back_up("one");
  add_entries(5);
  const std::string published = content_of(data / "head.note");
  CHECK(restore("one", true).error().code == store::ErrorCode::invalid_argument);  // no reason
  const auto restored = must(restore("one", true, "the disk of the newest is gone"));
  CHECK(restored.tree_size == 72);
  CHECK(restored.epoch == 2);
  CHECK(content_of(restored.set_aside / kBackupHead) == published);
  auto store = open_store(data);
  auto heads = must(HeadPublisher::start(*store, {}));
  CHECK(read(*store, [](store::Reader& reader) { return log_epoch(reader); }) == 2);
  CHECK(must(heads->signed_head()).starts_with("driftgate.local/log/epoch-2\n72\n"));
  const auto stored = read(*store, [](store::Reader& reader) { return find_entry(reader, 70); });
  const auto entry = schema::decode_entry(stored->bytes).value();
  CHECK(entry.draft.kind == schema::EvidenceKind::epoch_changed);
  CHECK(entry.draft.body.at("published_head") == schema::EntryValue(published));
  CHECK(entry.draft.body.at("kept_head").text()->starts_with("driftgate.local/log\n70\n"));
  const TrustFile trust = must(load_trust(data));
  REQUIRE(trust.keys.size() == 2);
  CHECK(trust.keys[0].until_us == 77);
  CHECK(trust.keys[1].name == "driftgate.local/log/epoch-2");
}

TEST_CASE_FIXTURE(Fixture, "a backup with an altered entry, or with damaged pages, is not restored") {
  add_entries(200);
  back_up("one");
  change_database(backups / "one",
                  "DROP TRIGGER entries_no_update;"
                  "UPDATE entries SET bytes = CAST(replace(bytes, 'x', 'y') AS BLOB) WHERE seq = 5");
  CHECK(restore("one").error().code == store::ErrorCode::corrupt);
  back_up("two");
  {
    std::fstream file(backups / "two" / kBackupDatabase, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(3 * 4'096);
    file << std::string(4'096, '\x5a');
  }
  CHECK(!restore("two"));
  CHECK(restore("none").error().code == store::ErrorCode::io);
  CHECK(size() == 200);
}

TEST_CASE_FIXTURE(Fixture, "a rotated head key signs from then on, and the old head is still known as ours") {
  add_entries(10);
  std::string old_head = content_of(data / "head.note");
  PublicKey fresh{};
  {
    auto store = open_store(data);
    must(HeadPublisher::start(*store, {}))->stop();  // from here on each commit of this store is signed
    fresh = must(rotate_key(*store, {KeyUse::head, data / "log.key", "driftgate.local/log"}, "yearly", 50));
    CHECK(content_of(data / "head.note") == old_head);
  }
  CHECK(size() == 11);
  const TrustFile trust = must(load_trust(data));
  REQUIRE(trust.keys.size() == 2);
  CHECK(trust.keys[0].until_us == 50);
  CHECK(trust.keys[1].key == fresh);
  CHECK(trust.keys[1].from_size == 11);
  CHECK(open_checkpoint(content_of(data / "head.note"), "driftgate.local/log", fresh)->size == 11);
  const auto older = head_keys_at(trust, "driftgate.local/log", 10);
  REQUIRE(!older.empty());
  CHECK(open_checkpoint(old_head, "driftgate.local/log", older.front().key)->size == 10);
}

TEST_CASE_FIXTURE(Fixture, "a rotation that a crash cut is finished with its entry and undone without") {
  add_entries(10);
  const fs::path key = data / "log.key";
  {
    // Before the entry: only the new file is there.
    must(must(SigningKey::generate()).save((key.string() + ".next")));
    CHECK(size() == 10);
    CHECK(!fs::exists(key.string() + ".next"));
  }
  {
    auto store = open_store(data);
    must(HeadPublisher::start(*store, {}))->stop();
    must(rotate_key(*store, {KeyUse::head, key, "driftgate.local/log"}, "yearly", 50));
  }
  // After the entry: as if the files had not changed places yet.
  const std::string new_key = content_of(key);
  for (const auto& item : fs::directory_iterator(data)) {
    if (item.path().filename().string().starts_with("log.key.retired-")) {
      fs::rename(key, key.string() + ".next");
      fs::rename(item.path(), key);
      break;
    }
  }
  fs::remove(trust_path(data));
  CHECK(size() == 11);
  CHECK(content_of(key) == new_key);
  CHECK(must(load_trust(data)).keys.size() == 2);
}
