#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::store {

class Connection;

/// One file of migrations/: "0001_initial" with version 1. Its SHA-256 is kept in the database.
struct Migration {
  std::int64_t version = 0;
  std::string_view name;
  const char* sql = "";
};

/// The files of migrations/, in order, as they were when this program was built.
[[nodiscard]] std::span<const Migration> embedded_migrations();
/// migrations/from_44abce1.sql, which brings a database of revision 44abce1 to the first of them.
[[nodiscard]] const char* upgrade_from_44abce1();

/// Brings the database to the newest version: all that it lacks in one transaction, each migration with its
/// row in schema_migrations, so that the program that wrote it opens it after a failure. A database of
/// revision 44abce1, whose ten migrations are one now, is upgraded; that is the only one of an older program
/// that is opened. `unsupported` when the database has a version that this program does not know, `corrupt`
/// when an applied migration differs from the program's or the file belongs to another program.
[[nodiscard]] schema::Result<void> migrate(Connection& connection, std::span<const Migration> migrations,
                                           std::int64_t now_us);

/// Whether `free_bytes` of the database's file system are enough for what migrate will do: `storage_full`
/// says how many it needs. Nothing is changed.
[[nodiscard]] schema::Result<void> check_space(Connection& connection, std::span<const Migration> migrations,
                                               std::uint64_t free_bytes);

/// That the database has exactly the schema of `migrations`; nothing is changed. Errors of migrate, and
/// `unsupported` when it is older.
[[nodiscard]] schema::Result<void> check_schema(Connection& connection, std::span<const Migration> migrations);

/// The schema version of the database, which migrate would accept; nothing is changed. Errors of migrate.
[[nodiscard]] schema::Result<std::int64_t> check_known(Connection& connection,
                                                       std::span<const Migration> migrations);

}  // namespace driftgate::store
