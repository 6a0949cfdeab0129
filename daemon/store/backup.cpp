#include "daemon/store/backup.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string_view>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/store/store.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr int kBusyMs = 5'000;
constexpr std::size_t kCopyBytes = 1 << 20;

struct CloseDatabase {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

base::UniqueFd open_file(const std::filesystem::path& path, int flags) {
  return base::UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
}

std::unexpected<Error> database_failure(sqlite3* handle, std::string_view what) {
  const int code = sqlite3_extended_errcode(handle) & 0xff;
  ErrorCode kind = ErrorCode::io;
  if (code == SQLITE_FULL) kind = ErrorCode::storage_full;
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) kind = ErrorCode::corrupt;
  return schema::failf(kind, "{}: {}", what, sqlite3_errmsg(handle));
}

Result<Database> open_to_read(const std::filesystem::path& file, const std::string& vfs) {
  sqlite3* handle = nullptr;
  const int rc = sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                                 vfs.empty() ? nullptr : vfs.c_str());
  Database database(handle);
  if (rc != SQLITE_OK) return database_failure(handle, "cannot open " + file.string());
  sqlite3_busy_timeout(handle, kBusyMs);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return database;
}

Statement prepare(const Database& database, const char* sql) {
  sqlite3_stmt* prepared = nullptr;
  sqlite3_prepare_v2(database.get(), sql, -1, &prepared, nullptr);
  return Statement(prepared);
}

Result<void> vacuum_into(const Database& database, const std::string& target) {
  const auto statement = prepare(database, "VACUUM INTO ?1");
  if (statement) {
    sqlite3_bind_text(statement.get(), 1, target.data(), static_cast<int>(target.size()), SQLITE_STATIC);
  }
  if (statement && sqlite3_step(statement.get()) == SQLITE_DONE) return {};
  return database_failure(database.get(), "cannot copy the database to " + target);
}

Result<void> sync_file(const std::filesystem::path& path) {
  const base::UniqueFd file = open_file(path, O_RDWR | O_NOFOLLOW);
  if (!file || ::fsync(file.get()) != 0) return base::file_failure("sync", path);
  return base::sync_folder(path.parent_path());
}

}  // namespace

Result<void> copy_database(const std::filesystem::path& data_dir, const std::filesystem::path& target,
                           const std::string& vfs) {
  {
    // SQLite accepts an empty file as the target and keeps its mode.
    const base::UniqueFd file = open_file(target, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (!file) return base::file_failure("create", target);
  }
  auto source = open_to_read(data_dir / "driftgate.db", vfs);
  auto done = source ? vacuum_into(*source, target.string()) : Result<void>(std::unexpected(source.error()));
  if (done) done = sync_file(target);
  if (!done) ::unlink(target.c_str());
  return done;
}

Result<void> check_database(const std::filesystem::path& file) {
  const auto database = TRY(open_to_read(file, {}));
  const auto statement = prepare(database, "PRAGMA integrity_check(1)");
  if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) {
    return database_failure(database.get(), "cannot check " + file.string());
  }
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
  const std::string_view verdict(text == nullptr ? "no answer" : text);
  if (verdict == "ok") return {};
  return schema::failf(ErrorCode::corrupt, "the database {} is damaged: {}", file.string(), verdict);
}

Result<void> copy_file_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  const base::UniqueFd source = open_file(from, O_RDONLY | O_NOFOLLOW);
  if (!source) return base::file_failure("open", from);
  const base::UniqueFd target = open_file(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (!target) return base::file_failure("create", to);
  const auto buffer = std::make_unique<std::array<char, kCopyBytes>>();
  for (;;) {
    const ssize_t size = ::read(source.get(), buffer->data(), buffer->size());
    if (size < 0) return base::file_failure("read", from);
    if (size == 0) break;
    if (!base::write_all(target.get(), {buffer->data(), static_cast<std::size_t>(size)}))
      return base::file_failure("write", to);
  }
  if (::fsync(target.get()) != 0) return base::file_failure("sync", to);
  return base::sync_folder(to.parent_path());
}

}  // namespace driftgate::store
