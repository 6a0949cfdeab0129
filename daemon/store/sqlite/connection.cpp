#include "daemon/store/sqlite/connection.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <stdexcept>

#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

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
  // The extended codes first: those of the constraints are also SQLITE_CONSTRAINT.
  static constexpr std::pair<int, ErrorCode> kCodes[] = {
      {SQLITE_CONSTRAINT_UNIQUE, ErrorCode::already_exists},
      {SQLITE_CONSTRAINT_PRIMARYKEY, ErrorCode::already_exists},
      {SQLITE_CONSTRAINT_ROWID, ErrorCode::already_exists},
      {SQLITE_CONSTRAINT_FOREIGNKEY, ErrorCode::not_found},
      {SQLITE_CONSTRAINT, ErrorCode::conflict},
      {SQLITE_FULL, ErrorCode::storage_full},
      {SQLITE_IOERR, ErrorCode::io},
      {SQLITE_CANTOPEN, ErrorCode::io},
      {SQLITE_CORRUPT, ErrorCode::corrupt},
      {SQLITE_NOTADB, ErrorCode::corrupt},
      {SQLITE_INTERRUPT, ErrorCode::deadline_exceeded},
      {SQLITE_BUSY, ErrorCode::unavailable},
      {SQLITE_TOOBIG, ErrorCode::limit_exceeded},
      {SQLITE_AUTH, ErrorCode::forbidden}};
  for (const auto& [code, kind] : kCodes) {
    if (code == extended || code == (extended & 0xff)) return kind;
  }
  return ErrorCode::internal;
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
  if (handle == nullptr) return schema::fail(ErrorCode::io, "out of memory while opening " + path);
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
  TRY(execute(kPragmas, "configure the writer"));
  static constexpr Sql kJournalMode{"journal mode", "PRAGMA journal_mode"};
  Reader reader(*this);
  const auto journal = TRY(find_row<std::string>(reader, kJournalMode, {}));
  if (journal == "wal") return {};
  return schema::failf(ErrorCode::unsupported,
                       "the data folder's file system does not support SQLite's WAL (journal mode is '{}'): "
                       "use a local file system",
                       journal.value_or(""));
}

Error Connection::last_error(std::string_view what) const {
  const int extended = sqlite3_extended_errcode(handle_);
  return Error{code_of(extended),
               fmt::format("database, {}: {} (SQLite code {})", what, sqlite3_errmsg(handle_), extended),
               {},
               nullptr};
}

void Connection::check_thread() const {
  if (owner_ && *owner_ != std::this_thread::get_id())
    throw std::logic_error("database used by another thread");
}

Result<void> Connection::execute(const char* script, std::string_view what) {
  check_thread();
  if (sqlite3_exec(handle_, script, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return std::unexpected(last_error(what));
  }
  return {};
}

Result<Connection::Prepared*> Connection::prepare(const Sql& sql) {
  Prepared& prepared = prepared_[sql.text];
  if (prepared.in_use) {
    return schema::failf(ErrorCode::internal, "statement '{}' is run again while its rows are read",
                         sql.name);
  }
  if (prepared.statement == nullptr && sqlite3_prepare_v3(handle_, sql.text, -1, SQLITE_PREPARE_PERSISTENT,
                                                          &prepared.statement, nullptr) != SQLITE_OK) {
    return std::unexpected(last_error(sql.name));
  }
  return &prepared;
}

Result<void> Connection::query(const Sql& sql, Params params, bool (*on_row)(void*, const Row&),
                               void* context) {
  check_thread();
  Prepared* const prepared = TRY(prepare(sql));
  struct InUse {
    Prepared& prepared;
    explicit InUse(Prepared& used) : prepared(used) { prepared.in_use = true; }
    ~InUse() {
      sqlite3_reset(prepared.statement);
      sqlite3_clear_bindings(prepared.statement);
      prepared.in_use = false;
    }
  } in_use(*prepared);
  sqlite3_stmt* const statement = in_use.prepared.statement;
  if (sqlite3_bind_parameter_count(statement) != static_cast<int>(params.size())) {
    return schema::failf(ErrorCode::internal, "statement '{}' takes {} parameters, not {}", sql.name,
                         sqlite3_bind_parameter_count(statement), params.size());
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
