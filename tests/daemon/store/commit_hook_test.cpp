#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/store/blobs.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/migrate.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "daemon/store/store.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

constexpr Sql kCountBlobs{"count blobs", "SELECT count(*) FROM blobs"};

std::int64_t count_blobs(Store& store) {
  return read(store, [](Reader& reader) -> Result<std::int64_t> {
    auto count = find_row<std::int64_t>(reader, kCountBlobs, {});
    if (!count) return std::unexpected(count.error());
    return count->value_or(-1);
  });
}

/// Writes a blob of its own in each transaction, and fails when it is told to.
class Hook final : public CommitHook {
 public:
  Result<void> begun(Tx&) override {
    ++begins;
    if (fail_begun) return schema::fail(ErrorCode::corrupt, "begun");
    return {};
  }
  Result<void> before_commit(Tx& tx) override {
    ++commits;
    auto put = put_blob(tx, "hook " + std::to_string(commits), "text/plain", 1);
    if (!put) return std::unexpected(put.error());
    if (fail_commit) return schema::fail(ErrorCode::corrupt, "before commit");
    return {};
  }
  int begins = 0, commits = 0;
  bool fail_begun = false, fail_commit = false;
};

Result<void> put(Store& store, const std::string& bytes, bool fails = false) {
  return store.write("test", [&](Tx& tx) -> Result<void> {
    auto done = put_blob(tx, bytes, "text/plain", 1);
    if (!done) return std::unexpected(done.error());
    if (fails) return schema::fail(ErrorCode::conflict, "the write itself");
    return {};
  });
}

}  // namespace

TEST_CASE_FIXTURE(StoreFixture,
                  "what the commit hook writes is committed with the items, and with nothing else") {
  const auto hook = std::make_shared<Hook>();
  must(put(*store, "before"));
  store->set_commit_hook(hook);
  must(put(*store, "one"));
  CHECK(count_blobs(*store) == 3);
  CHECK(put(*store, "two", true).error().message == "the write itself");
  CHECK(hook->begins == 2);
  CHECK(hook->commits == 1);
  CHECK(count_blobs(*store) == 3);
}

TEST_CASE_FIXTURE(StoreFixture,
                  "an error of the commit hook refuses every item of the transaction and undoes it") {
  const auto hook = std::make_shared<Hook>();
  store->set_commit_hook(hook);
  hook->fail_begun = true;
  CHECK(put(*store, "one").error().message == "begun");
  CHECK(hook->commits == 0);
  hook->fail_begun = false;
  hook->fail_commit = true;
  CHECK(put(*store, "one").error().message == "before commit");
  CHECK(count_blobs(*store) == 0);
  hook->fail_commit = false;
  must(put(*store, "one"));
  CHECK(count_blobs(*store) == 2);
}

TEST_CASE("a store that is open to be read only changes nothing") {
  TempDir dir;
  const auto open = [&](const std::filesystem::path& folder) {
    return Store::open({.data_dir = folder, .read_only = true});
  };
  CHECK(open(dir.path() / "none").error().code == ErrorCode::not_found);
  CHECK(!std::filesystem::exists(dir.path() / "none"));
  {
    auto store = open_store(dir.path());
    must(put(*store, "one"));
    CHECK(open(dir.path()).error().code == ErrorCode::conflict);
  }
  const auto path = dir.path() / "driftgate.db";
  const auto written = std::filesystem::last_write_time(path);
  {
    auto store = must(open(dir.path()));
    CHECK(count_blobs(*store) == 1);
    CHECK(put(*store, "two").error().code == ErrorCode::unsupported);
    CHECK(Store::open({.data_dir = dir.path()}).error().code == ErrorCode::conflict);
  }
  CHECK(std::filesystem::last_write_time(path) == written);
}

TEST_CASE("a store that is open to be read only takes no database of an older schema") {
  TempDir dir;
  const std::string path = (dir.path() / "driftgate.db").string();
  { auto store = open_store(dir.path()); }
  {
    auto raw = must(Connection::open(path, Connection::Mode::read_write, ""));
    must(raw->execute(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)",
        "test"));
  }
  const auto refused = Store::open({.data_dir = dir.path(), .read_only = true});
  CHECK(refused.error().code == ErrorCode::unsupported);
}
