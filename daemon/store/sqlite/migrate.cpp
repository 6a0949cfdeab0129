#include "daemon/store/sqlite/migrate.hpp"

#include <fmt/format.h>

#include <vector>

#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"
#include "schema/sha256.hpp"

namespace driftgate::store {

namespace {

constexpr std::int64_t kApplicationId = 0x64676174;  // "dgat"

constexpr Sql kReadApplicationId{"application id", "PRAGMA application_id"};
constexpr Sql kCountTables{"count tables", "SELECT count(*) FROM sqlite_schema"};
constexpr Sql kApplied{"applied migrations",
                       "SELECT version, name, checksum FROM schema_migrations ORDER BY version"};
constexpr Sql kRecord{
    "record migration",
    "INSERT INTO schema_migrations(version, name, checksum, applied_us) VALUES(?1, ?2, ?3, ?4)"};

// Debian's SQLite overwrites what it frees, and so would write the log that was copied to the WAL once more:
// four times as slow, with twice the space.
constexpr Sql kErases{"whether freed pages are erased", "PRAGMA secure_delete"};
constexpr Sql kHasLog{"whether there is a log",
                      "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'entries'"};
constexpr Sql kLogBytes{"size of the log", "SELECT coalesce(sum(length(bytes)), 0) FROM entries"};

/// 0010_lean_log copies the log: once into SQLite's WAL and once into the database, in pages that are not
/// full.
constexpr std::size_t kCopiesLog = 10;

/// SHA-256 of "version name checksum\n" of the ten migrations of revision 44abce1.
constexpr std::string_view kOf44abce1 =
    "sha256:51de2310f20ac4fcd0c3fb801f7fbc55f1bceb02f971e83abbae917b85fd1dd4";

struct Applied {
  std::int64_t version = 0;
  std::string name;
  std::string checksum;
};

/// Marks an empty database as ours; refuses another program's.
Result<void> prepare_database(Connection& connection, Tx& tx) {
  auto id = TRY(find_row<std::int64_t>(tx, kReadApplicationId, {}));
  if (id.value_or(0) == kApplicationId) return {};
  auto tables = TRY(find_row<std::int64_t>(tx, kCountTables, {}));
  if (tables.value_or(0) != 0) {
    return schema::fail(ErrorCode::corrupt,
                        "the database file belongs to another program: choose another folder");
  }
  return connection.execute(
      "BEGIN IMMEDIATE;"
      "CREATE TABLE schema_migrations(version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT "
      "NULL,"
      " applied_us INTEGER NOT NULL) STRICT;"
      "PRAGMA application_id=1684496756;"
      "COMMIT;",
      "prepare a new database");
}
static_assert(kApplicationId == 1684496756);

bool is_of_44abce1(const std::vector<Applied>& applied) {
  std::string text;
  for (const Applied& old : applied) text += fmt::format("{} {} {}\n", old.version, old.name, old.checksum);
  return schema::sha256_digest(text) == kOf44abce1;
}

Result<void> check_applied(const std::vector<Applied>& applied, std::span<const Migration> migrations) {
  for (std::size_t i = 0; i < applied.size(); ++i) {
    const Applied& old = applied[i];
    if (i >= migrations.size()) {
      return schema::failf(ErrorCode::unsupported,
                           "the database has schema version {} and this program knows up to {}: start a "
                           "newer driftgate, or restore a backup",
                           applied.back().version, migrations.size());
    }
    if (old.version != migrations[i].version || old.checksum != schema::sha256_digest(migrations[i].sql)) {
      return schema::failf(ErrorCode::corrupt,
                           "migration {} of the database ({}) is not the one of this program ({}): the "
                           "program or the database was altered",
                           old.version, old.name, migrations[i].name);
    }
  }
  return {};
}

/// Executes `sql` and records `migration` as applied, in the caller's transaction.
Result<void> apply(Connection& connection, Tx& tx, const Migration& migration, const char* sql,
                   std::int64_t now_us) {
  if (const auto done = connection.execute(sql, migration.name); !done) {
    return schema::wrap(
        done.error(),
        fmt::format("migration {} failed; the database is as it was, and the program that wrote it opens it",
                    migration.name));
  }
  TRY(tx.run(kRecord, {migration.version, migration.name, schema::sha256_digest(migration.sql), now_us}));
  return {};
}

/// In the caller's transaction. A database that is not of this program's line is refused before it is
/// changed.
Result<void> apply_missing(Connection& connection, Tx& tx, std::span<const Migration> migrations,
                           std::int64_t now_us) {
  auto applied = TRY(list_rows<Applied>(tx, kApplied, {}));
  if (is_of_44abce1(applied)) {
    TRY(apply(connection, tx, migrations.front(), upgrade_from_44abce1(), now_us));
    applied = TRY(list_rows<Applied>(tx, kApplied, {}));
  }
  TRY(check_applied(applied, migrations));
  for (const Migration& migration : migrations.subspan(applied.size())) {
    TRY(apply(connection, tx, migration, migration.sql, now_us));
  }
  return {};
}

Result<void> in_transaction(Connection& connection, Tx& tx, std::span<const Migration> migrations,
                            std::int64_t now_us) {
  TRY(connection.execute("BEGIN IMMEDIATE", "begin the migrations"));
  auto done = apply_missing(connection, tx, migrations, now_us);
  if (done) done = connection.execute("COMMIT", "commit the migrations");
  if (!done && !connection.autocommit()) {
    [[maybe_unused]] const auto undone = connection.execute("ROLLBACK", "undo the migrations");
  }
  return done;
}

}  // namespace

Result<void> check_schema(Connection& connection, std::span<const Migration> migrations) {
  Tx tx(connection);
  auto id = TRY(find_row<std::int64_t>(tx, kReadApplicationId, {}));
  if (id.value_or(0) != kApplicationId) {
    return schema::fail(ErrorCode::corrupt, "the database file belongs to another program");
  }
  const auto applied = TRY(list_rows<Applied>(tx, kApplied, {}));
  if (!is_of_44abce1(applied)) {
    TRY(check_applied(applied, migrations));
    if (applied.size() == migrations.size()) return {};
  }
  return schema::fail(ErrorCode::unsupported,
                      "the database has the schema of an older program: start this program's daemon on it once, "
                      "or use the program that wrote it");
}

Result<std::int64_t> check_known(Connection& connection, std::span<const Migration> migrations) {
  Tx tx(connection);
  const auto id = TRY(find_row<std::int64_t>(tx, kReadApplicationId, {}));
  if (id.value_or(0) != kApplicationId)
    return schema::fail(ErrorCode::corrupt, "the database file belongs to another program");
  const auto applied = TRY(list_rows<Applied>(tx, kApplied, {}));
  if (!is_of_44abce1(applied)) TRY(check_applied(applied, migrations));
  return applied.empty() ? 0 : applied.back().version;
}

Result<void> migrate(Connection& connection, std::span<const Migration> migrations, std::int64_t now_us) {
  Tx tx(connection);
  TRY(prepare_database(connection, tx));
  const auto erases = TRY(find_row<std::int64_t>(tx, kErases, {}));
  TRY(connection.execute("PRAGMA secure_delete=OFF", "begin the migrations"));
  auto done = in_transaction(connection, tx, migrations, now_us);
  if (erases.value_or(0) != 0) TRY(connection.execute("PRAGMA secure_delete=ON", "end the migrations"));
  return done;
}

Result<void> check_space(Connection& connection, std::span<const Migration> migrations,
                         std::uint64_t free_bytes) {
  Tx tx(connection);
  const auto id = TRY(find_row<std::int64_t>(tx, kReadApplicationId, {}));
  const auto logs = TRY(find_row<std::int64_t>(tx, kHasLog, {}));
  if (id.value_or(0) != kApplicationId || logs.value_or(0) == 0) return {};
  const auto applied = TRY(list_rows<Applied>(tx, kApplied, {}));
  const bool copies =
      migrations.size() >= kCopiesLog && (is_of_44abce1(applied) || applied.size() < kCopiesLog);
  if (!copies) return {};
  const auto bytes = TRY(find_row<std::int64_t>(tx, kLogBytes, {}));
  const auto needed = static_cast<std::uint64_t>(bytes.value_or(0)) * 3;
  if (free_bytes >= needed) return {};
  constexpr std::uint64_t kMiB = 1 << 20;
  return schema::failf(
      ErrorCode::storage_full,
      "the upgrade copies the evidence log, for which the file system of the data folder needs {} "
      "MiB of free space and has {} MiB: make room, then start again. Nothing was changed",
      needed / kMiB + 1, free_bytes / kMiB);
}

}  // namespace driftgate::store
