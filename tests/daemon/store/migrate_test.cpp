#include "daemon/store/sqlite/migrate.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

constexpr Sql kTables{"tables",
                      "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE type = 'table' "
                      "ORDER BY name)"};
constexpr Sql kColumns{"columns",
                       "SELECT t.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_schema t "
                       "JOIN pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.name"};
constexpr Sql kIndexesAndTriggers{"indexes and triggers",
                                  "SELECT name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') "
                                  "AND sql IS NOT NULL ORDER BY name"};
constexpr Sql kVersions{"versions", "SELECT count(*) FROM schema_migrations"};

std::unique_ptr<Connection> connect(const TempDir& dir) {
  const std::string path = (dir.path() / "driftgate.db").string();
  std::ofstream(path, std::ios::app).close();
  return must(Connection::open(path, Connection::Mode::read_write, ""));
}

std::string tables(Connection& connection) {
  Reader reader(connection);
  return must(find_row<std::string>(reader, kTables, {})).value();
}

std::vector<std::string> columns(Connection& connection) {
  Reader reader(connection);
  return must(reader.all(kColumns, {}, [](const Row& row) {
    return row.text(0) + "." + row.text(1) + " " + row.text(2) + " " + row.text(3) + " " + row.text(4);
  }));
}

std::vector<std::string> indexes_and_triggers(Connection& connection) {
  Reader reader(connection);
  return must(
      reader.all(kIndexesAndTriggers, {}, [](const Row& row) { return row.text(0) + ": " + row.text(1); }));
}

constexpr const char* kTenMiB =
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 159) "
    "INSERT INTO entries(seq, time_us, kind, actor, bytes) SELECT i, i, 'k', 'a', zeroblob(65535) FROM n";

const std::vector<Migration> kTwo = {
    {1, "0001_a", "CREATE TABLE a(x INTEGER) STRICT;"},
    {2, "0002_b", "CREATE TABLE b(x INTEGER) STRICT; INSERT INTO b VALUES(1);"}};

}  // namespace

TEST_CASE("the embedded migrations are numbered from 1 without gaps") {
  std::int64_t version = 0;
  for (const Migration& migration : embedded_migrations()) {
    CHECK(migration.version == ++version);
    CHECK(std::stoll(std::string(migration.name.substr(0, 4))) == version);
  }
  CHECK(version >= 1);
}

TEST_CASE("migrations are applied once each and in order") {
  TempDir dir;
  auto connection = connect(dir);
  must(migrate(*connection, std::span(kTwo).first(1), 1));
  CHECK(tables(*connection) == "a,schema_migrations");
  must(migrate(*connection, kTwo, 2));
  must(migrate(*connection, kTwo, 3));
  CHECK(tables(*connection) == "a,b,schema_migrations");
}

TEST_CASE("a database newer than the program is refused and left alone") {
  TempDir dir;
  auto connection = connect(dir);
  must(migrate(*connection, kTwo, 1));
  const auto refused = migrate(*connection, std::span(kTwo).first(1), 2);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(tables(*connection) == "a,b,schema_migrations");
}

TEST_CASE("a migration that was changed after it was applied is refused") {
  TempDir dir;
  auto connection = connect(dir);
  must(migrate(*connection, kTwo, 1));
  auto changed = kTwo;
  changed[0].sql = "CREATE TABLE a(x INTEGER, y INTEGER) STRICT;";
  const auto refused = migrate(*connection, changed, 2);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::corrupt);
}

TEST_CASE("a migration that fails half-way is undone as a whole, with those before it") {
  TempDir dir;
  auto connection = connect(dir);
  auto broken = kTwo;
  broken[1].sql = "CREATE TABLE b(x INTEGER) STRICT; INSERT INTO nowhere VALUES(1);";
  const auto refused = migrate(*connection, broken, 1);
  REQUIRE(!refused);
  CHECK(refused.error().message.starts_with("migration 0002_b failed; the database is as it was"));
  CHECK(tables(*connection) == "schema_migrations");
  must(migrate(*connection, kTwo, 2));
  CHECK(tables(*connection) == "a,b,schema_migrations");
}

TEST_CASE(
    "an upgrade that lacks the space to copy the log is refused with what it needs, and none is without a "
    "log") {
  TempDir dir;
  auto connection = connect(dir);
  const auto all = embedded_migrations();
  must(check_space(*connection, all, 0));  // there is no database yet
  must(migrate(*connection, all.first(9), 1));
  must(check_space(*connection, all, 0));  // the log is empty
  must(connection->execute(kTenMiB, "fill the log"));
  const auto refused = check_space(*connection, all, 24 << 20);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::storage_full);
  CHECK(refused.error().message ==
        "the upgrade copies the evidence log, for which the file system of the data folder needs 30 MiB of "
        "free space and has 24 MiB: make room, then start again. Nothing was changed");
  must(check_space(*connection, all, 30 << 20));
  must(check_space(*connection, all.first(9), 0));
  must(migrate(*connection, all, 2));
  must(check_space(*connection, all, 0));  // it was copied
}

TEST_CASE("a crash inside a migration is harmless") {
  TempDir dir;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto connection = connect(dir);
    const auto crash = [](sqlite3_context*, int, sqlite3_value**) { ::_exit(9); };
    sqlite3_create_function(connection->handle(), "crash", 0, SQLITE_UTF8, nullptr, +crash, nullptr, nullptr);
    auto crashing = kTwo;
    crashing[1].sql = "CREATE TABLE b(x INTEGER) STRICT; INSERT INTO b SELECT crash();";
    [[maybe_unused]] const auto done = migrate(*connection, crashing, 1);
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 9);
  auto connection = connect(dir);
  CHECK(tables(*connection) == "schema_migrations");
  must(migrate(*connection, kTwo, 2));
  Reader reader(*connection);
  CHECK(must(find_row<std::int64_t>(reader, kVersions, {})) == 2);
}

TEST_CASE("a database of revision 44abce1 gets the columns, indexes and triggers of a new one") {
  TempDir old, fresh;
  const std::string unpack =
      "tar -xJf tests/vectors/folder_44abce1.tar.xz -C " + old.path().string() + " ./driftgate.db";
  REQUIRE(std::system(unpack.c_str()) == 0);
  auto upgraded = connect(old);
  CHECK(check_schema(*upgraded, embedded_migrations()).error().code == ErrorCode::unsupported);
  must(migrate(*upgraded, embedded_migrations(), 1));
  must(migrate(*upgraded, embedded_migrations(), 2));
  must(check_schema(*upgraded, embedded_migrations()));
  auto made = connect(fresh);
  must(migrate(*made, embedded_migrations(), 1));
  CHECK(columns(*upgraded) == columns(*made));
  CHECK(indexes_and_triggers(*upgraded) == indexes_and_triggers(*made));
}

TEST_CASE("another program's database is refused") {
  TempDir dir;
  auto connection = connect(dir);
  must(connection->execute("CREATE TABLE theirs(x)", "test"));
  const auto refused = migrate(*connection, kTwo, 1);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::corrupt);
}

TEST_CASE("a file that is no database is refused by name") {
  TempDir dir;
  std::ofstream(dir.path() / "driftgate.db") << std::string(8'192, 'x');
  const auto refused = Store::open({.data_dir = dir.path()});
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::corrupt);
}
