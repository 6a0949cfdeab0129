#include "daemon/store/sqlite/log_guard.hpp"

#include <doctest/doctest.h>

#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

constexpr Sql kInsert{"insert entry", "INSERT INTO entries(seq, bytes) VALUES(?1, x'00')"};
constexpr Sql kReplace{"replace entry", "INSERT OR REPLACE INTO entries(seq, bytes) VALUES(?1, x'01')"};
constexpr Sql kUpsert{"upsert entry",
                      "INSERT INTO entries(seq, bytes) VALUES(?1, x'01') "
                      "ON CONFLICT(seq) DO UPDATE SET bytes = excluded.bytes"};
constexpr Sql kUpdate{"update entry", "UPDATE entries SET bytes = x'01' WHERE seq = ?1"};
constexpr Sql kDelete{"delete entry", "DELETE FROM entries WHERE seq = ?1"};
constexpr Sql kInsertNode{"insert node", "INSERT INTO tree_nodes(position, hash) VALUES(?1, zeroblob(32))"};
constexpr Sql kReplaceNode{"replace node",
                           "INSERT OR REPLACE INTO tree_nodes(position, hash) VALUES(?1, zeroblob(32))"};
constexpr Sql kUpdateNode{"update node", "UPDATE tree_nodes SET hash = zeroblob(32) WHERE position = ?1"};
constexpr Sql kDeleteNode{"delete node", "DELETE FROM tree_nodes WHERE position = ?1"};
constexpr Sql kDropTrigger{"drop trigger", "DROP TRIGGER entries_no_update"};
constexpr Sql kInsertIndex{"insert into the index", "INSERT INTO index_places VALUES(0, 0, ?1, x'0000')"};
constexpr Sql kUpdateIndex{"update the index", "UPDATE index_places SET places = x'0100' WHERE key = ?1"};
constexpr Sql kDeleteIndex{"delete from the index", "DELETE FROM index_places WHERE key = ?1"};
constexpr Sql kDropTable{"drop table", "DROP TABLE entries"};
constexpr Sql kAlter{"alter table", "ALTER TABLE entries RENAME TO others"};
constexpr Sql kCreate{"create trigger", "CREATE TRIGGER t AFTER INSERT ON entries BEGIN SELECT 1; END"};
constexpr Sql kAttach{"attach", "ATTACH ':memory:' AS other"};
constexpr Sql kPragma{"pragma", "PRAGMA recursive_triggers=OFF"};
constexpr Sql kWritable{"writable schema", "PRAGMA writable_schema=ON"};
constexpr Sql kContent{"content", "SELECT group_concat(hex(bytes)) FROM entries"};

bool runs(Store& store, const Sql& sql, Params params) {
  return store.write("test", [&](Tx& tx) { return tx.run(sql, params); }).has_value();
}

}  // namespace

TEST_CASE_FIXTURE(StoreFixture, "the log can only be appended to, whatever the statement") {
  REQUIRE(runs(*store, kInsert, {0}));
  REQUIRE(runs(*store, kInsert, {1}));
  CHECK(!runs(*store, kInsert, {1}));
  CHECK(!runs(*store, kInsert, {3}));
  CHECK(!runs(*store, kInsert, {-1}));
  CHECK(!runs(*store, kReplace, {0}));
  CHECK(!runs(*store, kReplace, {1}));
  for (const Sql* sql : {&kUpsert, &kUpdate, &kDelete}) {
    CAPTURE(sql->name);
    CHECK(!runs(*store, *sql, {0}));
    CHECK(!runs(*store, *sql, {1}));
  }
  const auto content =
      read(*store, [](Reader& reader) { return find_row<std::string>(reader, kContent, {}); });
  CHECK(content == "00,00");
}

TEST_CASE_FIXTURE(StoreFixture, "the tree can only be appended to") {
  REQUIRE(runs(*store, kInsertNode, {0}));
  CHECK(!runs(*store, kInsertNode, {0}));
  CHECK(!runs(*store, kInsertNode, {2}));
  CHECK(!runs(*store, kReplaceNode, {0}));
  CHECK(!runs(*store, kUpdateNode, {0}));
  CHECK(!runs(*store, kDeleteNode, {0}));
}

TEST_CASE_FIXTURE(StoreFixture, "a write is undone as a whole when one of its entries has another number") {
  const auto insert = [&](std::initializer_list<int> numbers) {
    return store->write("several", [&](Tx& tx) -> Result<void> {
      for (const int number : numbers) TRY(tx.run(kInsert, {number}));
      return {};
    });
  };
  must(insert({0, 1}));
  for (const auto& numbers : {std::initializer_list<int>{2, 4}, {3, 2}, {2, 3, 5, 6}}) {
    const auto refused = insert(numbers);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::conflict);
    CHECK(refused.error().message == "the log is append-only: seq must be max + 1");
  }
  // What the write before it put in is replaced within one transaction.
  CHECK(!store->write("replace", [&](Tx& tx) -> Result<void> {
    TRY(tx.run(kInsert, {2}));
    TRY(tx.run(kReplace, {2}));
    return {};
  }));
  const auto failed = store->write("fail", [&](Tx& tx) -> Result<void> {
    TRY(tx.run(kInsert, {2}));
    return schema::fail(ErrorCode::conflict, "on purpose");
  });
  CHECK(failed.error().message == "on purpose");
  must(insert({2, 3}));
  const auto content =
      read(*store, [](Reader& reader) { return find_row<std::string>(reader, kContent, {}); });
  CHECK(content == "00,00,00,00");
}

TEST_CASE_FIXTURE(StoreFixture, "the index can only be added to") {
  REQUIRE(runs(*store, kInsertIndex, {7}));
  CHECK(!runs(*store, kInsertIndex, {7}));
  CHECK(!runs(*store, kUpdateIndex, {7}));
  CHECK(!runs(*store, kDeleteIndex, {7}));
}

TEST_CASE("the triggers hold without the authorizer, recursive ones included") {
  TempDir dir;
  open_store(dir.path())->stop();
  auto connection =
      must(Connection::open((dir.path() / "driftgate.db").string(), Connection::Mode::read_write, ""));
  Tx tx(*connection);
  REQUIRE(tx.run(kInsert, {0}).has_value());
  for (const Sql* sql : {&kReplace, &kUpsert, &kUpdate, &kDelete}) {
    CAPTURE(sql->name);
    const auto done = tx.run(*sql, {0});
    REQUIRE(!done);
    CHECK(done.error().code == ErrorCode::conflict);
  }
}

TEST_CASE_FIXTURE(StoreFixture, "the writer cannot change the schema, attach files or set PRAGMAs") {
  for (const Sql* sql : {&kDropTrigger, &kDropTable, &kAlter, &kCreate, &kAttach, &kPragma, &kWritable}) {
    CAPTURE(sql->name);
    CHECK(!runs(*store, *sql, {}));
  }
}
