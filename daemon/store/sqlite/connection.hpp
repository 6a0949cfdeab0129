#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <typeindex>
#include <unordered_map>

#include "daemon/store/sqlite/sql.hpp"
#include "schema/error.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace driftgate::store {

/// One SQLite connection with its prepared statements. Not thread-safe: one thread at a time, and only the
/// bound one once `bind_to_this_thread` was called (another is a bug and throws std::logic_error).
class Connection {
 public:
  enum class Mode : std::uint8_t { read_write, read_only };

  /// Opens and applies the PRAGMAs of docs/design/evidence.md, "Durability". `vfs` may be empty.
  [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode,
                                                                const std::string& vfs);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs one or more statements that return nothing of interest: transactions, PRAGMAs, migrations.
  Result<void> execute(const char* script, std::string_view what);
  /// Runs a prepared statement that has no parameters and returns nothing.
  Result<void> run(const Sql& sql) { return query(sql, {}, nullptr, nullptr); }
  /// Runs a prepared statement, calling `on_row` for each row until it returns false.
  Result<void> query(const Sql& sql, Params params, bool (*on_row)(void*, const Row&), void* context);

  /// No transaction is open: after an error this means that SQLite has undone all of it.
  [[nodiscard]] bool autocommit() const;
  [[nodiscard]] std::int64_t changes() const;
  /// Statements that run beyond the deadline fail with `deadline_exceeded`.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline);
  /// What Tx::beside keeps of a type.
  std::shared_ptr<void>& beside(const std::type_info& type) { return beside_[type]; }
  /// Drops it all: something was undone.
  void forget() { beside_.clear(); }
  void bind_to_this_thread() { owner_ = std::this_thread::get_id(); }

  [[nodiscard]] sqlite3* handle() const { return handle_; }
  /// The failure that the handle reports now, as an Error with its SQLite name.
  [[nodiscard]] Error last_error(std::string_view what) const;

 private:
  struct Prepared {
    sqlite3_stmt* statement = nullptr;
    bool in_use = false;
  };

  explicit Connection(sqlite3* handle) : handle_(handle) {}
  Result<void> configure(Mode mode);
  void check_thread() const;
  Result<Prepared*> prepare(const Sql& sql);
  Result<void> step_through(sqlite3_stmt* statement, const Sql& sql, bool (*on_row)(void*, const Row&),
                            void* context);

  sqlite3* handle_;
  std::unordered_map<const char*, Prepared>
      prepared_;  ///< by the literal's address: as many as the program has
  std::unordered_map<std::type_index, std::shared_ptr<void>> beside_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<std::thread::id> owner_;
};

}  // namespace driftgate::store
