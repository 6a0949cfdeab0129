#include "daemon/store/sqlite/connection.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <stdexcept>

namespace driftgate::store {

namespace {

constexpr int kWriterBusyMs = 50;  ///< how long a TRUNCATE checkpoint waits for readers
constexpr int kReaderBusyMs = 1'000;
constexpr int kProgressSteps = 1'000;  ///< virtual machine steps between looks at the deadline

constexpr const char* kPragmas =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA recursive_triggers=ON; "
    "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA wal_autocheckpoint=0; "
    "PRAGMA cache_size=-65536;";
constexpr const char* kReaderPragmas =
    "PRAGMA query_only=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; "
    "PRAGMA cache_size=-16384;";

ErrorCode code_of(int extended) {
  switch (extended) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return ErrorCode::already_exists;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return ErrorCode::not_found;
    default:
      break;
  }
  switch (extended & 0xff) {
    case SQLITE_CONSTRAINT:
      return ErrorCode::conflict;
    case SQLITE_FULL:
      return ErrorCode::storage_full;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      return ErrorCode::io;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::corrupt;
    case SQLITE_INTERRUPT:
      return ErrorCode::deadline_exceeded;
    case SQLITE_BUSY:
      return ErrorCode::unavailable;
    case SQLITE_TOOBIG:
      return ErrorCode::limit_exceeded;
    case SQLITE_AUTH:
      return ErrorCode::forbidden;
    default:
      return ErrorCode::internal;
  }
}

int bind(sqlite3_stmt* statement, int place, const Param& param) {
  struct Binder {
    sqlite3_stmt* statement;
    int place;
    int operator()(std::nullptr_t) const { return sqlite3_bind_null(statement, place); }
    int operator()(std::int64_t value) const { return sqlite3_bind_int64(statement, place, value); }
    int operator()(std::string_view text) const {
      // An empty view may have a null pointer, which SQLite would bind as NULL.
      return sqlite3_bind_text64(statement, place, text.empty() ? "" : text.data(), text.size(),
                                 SQLITE_STATIC, SQLITE_UTF8);
    }
    int operator()(const Blob& blob) const {
      return sqlite3_bind_blob64(statement, place, blob.bytes.empty() ? "" : blob.bytes.data(),
                                 blob.bytes.size(), SQLITE_STATIC);
    }
  };
  return std::visit(Binder{statement, place}, param.value());
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path, Mode mode,
                                                     const std::string& vfs) {
  const int access = mode == Mode::read_write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  sqlite3* handle = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &handle, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                 vfs.empty() ? nullptr : vfs.c_str());
  if (handle == nullptr) return schema::fail(ErrorCode::io, "SQLite has no memory to open " + path);
  std::unique_ptr<Connection> connection(new Connection(handle));
  if (rc != SQLITE_OK) return std::unexpected(connection->last_error("open " + path));
  TRY(connection->configure(mode));
  return connection;
}

Connection::~Connection() {
  for (const auto& [text, prepared] : prepared_) sqlite3_finalize(prepared.statement);
  sqlite3_close(handle_);
}

Result<void> Connection::configure(Mode mode) {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_busy_timeout(handle_, mode == Mode::read_write ? kWriterBusyMs : kReaderBusyMs);
  if (mode == Mode::read_only) {
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return execute(kReaderPragmas, "configure a reader");
  }
  auto done = execute(kPragmas, "configure the writer");
  if (!done) return done;
  std::string journal;
  static constexpr Sql kJournalMode{"journal mode", "PRAGMA journal_mode"};
  done = query(
      kJournalMode, {},
      [](void* text, const Row& row) {
        *static_cast<std::string*>(text) = row.text(0);
        return true;
      },
      &journal);
  if (done && journal != "wal") {
    return schema::fail(ErrorCode::unsupported,
                        "the data folder's file system cannot hold a WAL database (journal "
                        "mode is '" +
                            journal + "'): use a local file system");
  }
  return done;
}

Error Connection::last_error(std::string_view what) const {
  const int extended = sqlite3_extended_errcode(handle_);
  return Error{code_of(extended),
               fmt::format("database, {}: {} (SQLite code {})", what, sqlite3_errmsg(handle_), extended),
               {},
               nullptr};
}

Result<void> Connection::execute(const char* script, std::string_view what) {
  if (owner_ && *owner_ != std::this_thread::get_id())
    throw std::logic_error("database used by another thread");
  if (sqlite3_exec(handle_, script, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return std::unexpected(last_error(what));
  }
  return {};
}

Result<Connection::Prepared*> Connection::prepare(const Sql& sql) {
  Prepared& prepared = prepared_[sql.text];
  if (prepared.in_use) {
    return schema::fail(ErrorCode::internal,
                        fmt::format("statement '{}' is used inside its own rows", sql.name));
  }
  if (prepared.statement == nullptr && sqlite3_prepare_v3(handle_, sql.text, -1, SQLITE_PREPARE_PERSISTENT,
                                                          &prepared.statement, nullptr) != SQLITE_OK) {
    return std::unexpected(last_error(sql.name));
  }
  return &prepared;
}

Result<void> Connection::query(const Sql& sql, Params params, bool (*on_row)(void*, const Row&),
                               void* context) {
  if (owner_ && *owner_ != std::this_thread::get_id())
    throw std::logic_error("database used by another thread");
  auto prepared = prepare(sql);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  struct InUse {
    Prepared& prepared;
    explicit InUse(Prepared& used) : prepared(used) { prepared.in_use = true; }
    ~InUse() {
      sqlite3_reset(prepared.statement);
      sqlite3_clear_bindings(prepared.statement);
      prepared.in_use = false;
    }
  } in_use(**prepared);
  sqlite3_stmt* const statement = in_use.prepared.statement;
  if (sqlite3_bind_parameter_count(statement) != static_cast<int>(params.size())) {
    return schema::fail(ErrorCode::internal,
                        fmt::format("statement '{}' wants {} parameters, not {}", sql.name,
                                    sqlite3_bind_parameter_count(statement), params.size()));
  }
  int place = 0;
  for (const Param& param : params) {
    if (bind(statement, ++place, param) != SQLITE_OK) return std::unexpected(last_error(sql.name));
  }
  return step_through(statement, sql, on_row, context);
}

Result<void> Connection::step_through(sqlite3_stmt* statement, const Sql& sql,
                                      bool (*on_row)(void*, const Row&), void* context) {
  const Row row(statement);
  int rc = SQLITE_ROW;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    if (on_row != nullptr && !on_row(context, row)) return {};
  }
  if (rc == SQLITE_DONE) return {};
  return std::unexpected(last_error(sql.name));
}

bool Connection::autocommit() const {
  return sqlite3_get_autocommit(handle_) != 0;
}

std::int64_t Connection::changes() const {
  return sqlite3_changes64(handle_);
}

void Connection::set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) {
  deadline_ = deadline;
  const auto passed = [](void* connection) {
    const auto& limit = static_cast<const Connection*>(connection)->deadline_;
    return limit && std::chrono::steady_clock::now() > *limit ? 1 : 0;
  };
  sqlite3_progress_handler(handle_, deadline ? kProgressSteps : 0, deadline ? +passed : nullptr, this);
}

}  // namespace driftgate::store
