#include "daemon/store/store.hpp"
#include "daemon/store/sqlite/rows.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <latch>
#include <thread>
#include <vector>

#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/router_windows.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/migrate.hpp"
#include "tests/daemon/store/fault_vfs.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

constexpr Sql kCountBlobs{"count blobs", "SELECT count(*) FROM blobs"};
constexpr Sql kEndless{
    "endless", "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"};
constexpr Sql kWriteBlob{"reader writes", "DELETE FROM blobs"};

std::int64_t count_blobs(Store& store) {
  return read(store, [](Reader& reader) -> Result<std::int64_t> {
    auto count = find_row<std::int64_t>(reader, kCountBlobs, {});
    if (!count) return std::unexpected(count.error());
    return count->value_or(-1);
  });
}

/// Occupies the writer thread until `go` is called.
class BusyWriter {
 public:
  explicit BusyWriter(Store& store)
      : thread_([this, &store] {
          write(store, [this](Tx&) -> Result<void> {
            began_.count_down();
            release_.wait();
            return {};
          });
        }) {
    began_.wait();
  }
  ~BusyWriter() { go(); }
  void go() {
    if (!thread_.joinable()) return;
    release_.count_down();
    thread_.join();
  }

 private:
  std::latch began_{1};
  std::latch release_{1};
  std::thread thread_;
};

}  // namespace

TEST_CASE_FIXTURE(StoreFixture, "a write is visible to readers as soon as it returns") {
  for (std::int64_t i = 0; i < 200; ++i) {
    write(*store, [&](Tx& tx) { return put_blob(tx, "blob " + std::to_string(i), "text/plain", i); });
    REQUIRE(count_blobs(*store) == i + 1);
  }
}

TEST_CASE_FIXTURE(StoreFixture, "an item that fails is undone and the others of its group are kept") {
  BusyWriter busy(*store);
  std::vector<std::future<Result<std::string>>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(std::async(std::launch::async, [this, i] {
      return store->write("item", [i](Tx& tx) -> Result<std::string> {
        auto digest = put_blob(tx, "blob " + std::to_string(i), "text/plain", i);
        if (i % 3 == 0) return schema::fail(ErrorCode::conflict, "on purpose");
        if (i % 3 == 1) throw std::runtime_error("a bug on purpose");
        return digest;
      });
    }));
  }
  while (store->stats().queued < 20) std::this_thread::yield();
  busy.go();
  for (int i = 0; i < 20; ++i) {
    const auto answer = answers[static_cast<std::size_t>(i)].get();
    CHECK(answer.has_value() == (i % 3 == 2));
    if (i % 3 == 0) CHECK(answer.error().code == ErrorCode::conflict);
    if (i % 3 == 1) CHECK(answer.error().code == ErrorCode::internal);
  }
  CHECK(count_blobs(*store) == 6);
  CHECK(store->stats().commits < 20);  // they went together
}

TEST_CASE("a full queue refuses at once and recovers") {
  TempDir dir;
  auto store = open_store(dir.path(), 2);
  BusyWriter busy(*store);
  std::vector<std::thread> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.emplace_back([&store, i] {
      write(*store, [i](Tx& tx) { return put_blob(tx, std::to_string(i), "text/plain", 0); });
    });
  }
  while (store->stats().queued < 2) std::this_thread::yield();
  const auto refused = store->write("one more", [](Tx& tx) { return put_blob(tx, "x", "text/plain", 0); });
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(store->stats().refused == 1);
  busy.go();
  for (auto& thread : waiting) thread.join();
  CHECK(store->write("one more", [](Tx& tx) { return put_blob(tx, "x", "text/plain", 0); }).has_value());
  CHECK(count_blobs(*store) == 3);
}

TEST_CASE_FIXTURE(StoreFixture, "a write inside a write is refused instead of waiting for itself") {
  write(*store, [&](Tx&) -> Result<void> {
    const auto inner = store->write("inner", [](Tx& tx) { return put_blob(tx, "x", "text/plain", 0); });
    CHECK(!inner);
    CHECK(inner.error().code == ErrorCode::internal);
    return {};
  });
}

TEST_CASE_FIXTURE(StoreFixture, "stop finishes the writes that wait and refuses new ones") {
  {
    BusyWriter busy(*store);
    std::vector<std::future<Result<std::string>>> answers;
    for (int i = 0; i < 10; ++i) {
      answers.push_back(std::async(std::launch::async, [this, i] {
        return store->write("item", [i](Tx& tx) { return put_blob(tx, std::to_string(i), "text/plain", 0); });
      }));
    }
    while (store->stats().queued < 10) std::this_thread::yield();
    std::thread stopper([&] { store->stop(); });
    busy.go();
    stopper.join();
    for (auto& answer : answers) CHECK(answer.get().has_value());
  }
  const auto late = store->write("late", [](Tx& tx) { return put_blob(tx, "x", "text/plain", 0); });
  REQUIRE(!late);
  CHECK(late.error().code == ErrorCode::unavailable);
  store.reset();
  store = open_store(dir.path());
  CHECK(count_blobs(*store) == 10);
}

TEST_CASE_FIXTURE(StoreFixture, "listeners are called after each commit and not after they were removed") {
  std::atomic<int> calls{0};
  const auto listener = store->add_commit_listener([&] { ++calls; });
  for (int i = 0; i < 3; ++i) {
    write(*store, [&](Tx& tx) { return put_blob(tx, std::to_string(i), "text/plain", 0); });
  }
  const auto failed = store->write(
      "fails", [](Tx&) -> Result<void> { return schema::fail(ErrorCode::conflict, "on purpose"); });
  CHECK(!failed);
  store->remove_listener(listener);  // waits for a call that is under way
  CHECK(calls == 3);
  write(*store, [&](Tx& tx) { return put_blob(tx, "later", "text/plain", 0); });
  CHECK(calls == 3);
}

TEST_CASE_FIXTURE(StoreFixture, "a second store on the same folder is refused and names the holder") {
  const auto second = Store::open({.data_dir = dir.path()});
  REQUIRE(!second);
  CHECK(second.error().code == ErrorCode::conflict);
  CHECK(second.error().message.find(std::to_string(::getpid())) != std::string::npos);
  store.reset();
  CHECK(Store::open({.data_dir = dir.path()}).has_value());
}

TEST_CASE_FIXTURE(StoreFixture, "a look at a folder says its schema version, beside the store that is open") {
  const auto version = must(Store::look(dir.path()));
  CHECK(version == static_cast<std::int64_t>(embedded_migrations().size()));
  must(Store::check_room(dir.path()));
  TempDir empty;
  CHECK_FALSE(must(Store::look(empty.path())).has_value());
  CHECK_FALSE(std::filesystem::exists(empty.path() / "driftgate.db"));
  store.reset();
  auto later =
      must(Connection::open((dir.path() / "driftgate.db").string(), Connection::Mode::read_write, ""));
  must(later->execute("INSERT INTO schema_migrations VALUES(999, 'later', 'x', 0)", "a newer program"));
  later.reset();
  const auto refused = Store::look(dir.path());
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().describe().find("schema version 999") != std::string::npos);
}

TEST_CASE("the database, its WAL and the lock are readable by their owner only") {
  TempDir dir;
  auto store = open_store(dir.path() / "made");
  write(*store, [](Tx& tx) { return put_blob(tx, "x", "text/plain", 0); });
  struct stat status {};
  REQUIRE(::stat((dir.path() / "made").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  for (const char* name : {"driftgate.db", "driftgate.db-wal", "driftgate.db-shm", "driftgate.lock"}) {
    CAPTURE(name);
    REQUIRE(::stat((dir.path() / "made" / name).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
}

TEST_CASE_FIXTURE(StoreFixture, "readers cannot write and see one snapshot for the whole read") {
  read(*store, [&](Reader& reader) -> Result<void> {
    CHECK(!reader.each(kWriteBlob, {}, [](const Row&) { return true; }));
    const auto count = [&] { return must(find_row<std::int64_t>(reader, kCountBlobs, {})); };
    CHECK(count() == 0);
    write(*store, [](Tx& tx) { return put_blob(tx, "x", "text/plain", 0); });
    CHECK(count() == 0);
    return {};
  });
  CHECK(count_blobs(*store) == 1);
}

TEST_CASE_FIXTURE(StoreFixture, "a read that never ends is interrupted") {
  const auto answer = store->read([](Reader& reader) -> Result<void> {
    return reader.each(kEndless, {}, [](const Row&) { return true; });
  });
  REQUIRE(!answer);
  CHECK(answer.error().code == ErrorCode::deadline_exceeded);
  CHECK(count_blobs(*store) == 0);  // the connection serves on
}

TEST_CASE_FIXTURE(StoreFixture, "the WAL stays bounded under sustained writes") {
  const std::string payload(256 << 10, 'x');
  for (int i = 0; i < 200; ++i) {  // 50 MB
    write(*store, [&](Tx& tx) { return put_blob(tx, payload + std::to_string(i), "text/plain", 0); });
  }
  CHECK(store->stats().checkpoints > 0);
  CHECK(std::filesystem::file_size(dir.path() / "driftgate.db-wal") < 2 * kPassiveCheckpointBytes);
  store->stop();
  CHECK(!std::filesystem::exists(dir.path() / "driftgate.db-wal"));
}

TEST_CASE("a full disk fails writes with storage_full and keeps serving reads") {
  TempDir dir;
  Faults& faults = fault_vfs();
  auto store = must(Store::open({.data_dir = dir.path(), .vfs = "fault"}));
  write(*store, [](Tx& tx) { return put_blob(tx, "before", "text/plain", 0); });
  faults.fail_write_full = 1;
  const auto full = store->write("too much", [](Tx& tx) { return put_blob(tx, "during", "text/plain", 0); });
  REQUIRE(!full);
  CHECK(full.error().code == ErrorCode::storage_full);
  CHECK(count_blobs(*store) == 1);
  faults.fail_write_full = 0;
  write(*store, [](Tx& tx) { return put_blob(tx, "after", "text/plain", 0); });
  CHECK(count_blobs(*store) == 2);
}

TEST_CASE("a COMMIT whose sync or write fails ends the process with 74 and recovery decides") {
  for (const bool sync : {true, false}) {
    CAPTURE(sync);
    TempDir dir;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Faults& faults = fault_vfs();
      auto store = must(Store::open({.data_dir = dir.path(), .vfs = "fault"}));
      write(*store, [](Tx& tx) { return put_blob(tx, "before", "text/plain", 0); });
      (sync ? faults.fail_sync : faults.fail_write) = 1;
      const auto unknown =
          store->write("unknown", [](Tx& tx) { return put_blob(tx, "during", "text/plain", 0); });
      ::_exit(unknown ? 1 : 2);  // an answer of either kind would be a lie
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == kExitIo);
    auto store = open_store(dir.path());
    const auto blobs = count_blobs(*store);
    CHECK(blobs >= 1);
    CHECK(blobs <= 2);
  }
}
