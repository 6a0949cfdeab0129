#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "daemon/store/sqlite/sql.hpp"
#include "schema/error.hpp"

namespace driftgate::store {

inline constexpr std::size_t kMaxGroup = 64;                            ///< items in one COMMIT
inline constexpr std::chrono::milliseconds kMaxGroupTime{2};            ///< no item joins a group after this
inline constexpr std::chrono::seconds kMaxReadTime{5};                  ///< a longer read is interrupted
inline constexpr std::uint64_t kPassiveCheckpointBytes = 4ull << 20;    ///< WAL growth between checkpoints
inline constexpr std::uint64_t kTruncateCheckpointBytes = 64ull << 20;  ///< above this the WAL is truncated
inline constexpr int kExitIo = 74;                                      ///< EX_IOERR of sysexits.h

struct StoreOptions {
  std::filesystem::path data_dir{};  ///< created with mode 0700 when absent; holds driftgate.db (0600)
  std::int64_t opened_us = 0;        ///< wall clock now, noted beside migrations
  std::size_t queue_limit = 1'024;   ///< writes waiting; one more is refused as `unavailable`
  std::size_t readers = 4;           ///< read-only connections
  std::string vfs{};                 ///< name of a registered SQLite VFS; empty: the default
  /// Changes nothing: no migration, no new folder, and every write fails with `unsupported`. The folder is
  /// locked all the same.
  bool read_only = false;
  /// Called when a COMMIT or checkpoint may or may not be on disk. Must not return; by default it writes the
  /// message to standard error and ends the process at once with kExitIo.
  std::function<void(const std::string& message)> on_unknown_commit{};
};

/// What each transaction does besides the writes of its items, such as signing what they append. Only the
/// writer thread calls it.
class CommitHook {
 public:
  virtual ~CommitHook() = default;
  /// After BEGIN and before the first item. An error refuses every item of the transaction.
  virtual Result<void> begun(Tx& tx) = 0;
  /// After the last item, before the COMMIT of a transaction in which an item succeeded. An error undoes all.
  virtual Result<void> before_commit(Tx& tx) = 0;
};

/// The daemon's only door to its database (docs/design/evidence.md, "Durability"): one writer thread with the
/// only writing connection, a bounded queue before it, group commit, and a few read-only connections.
/// Thread-safe.
class Store {
 public:
  /// Locks the folder, opens or creates the database and migrates it. `conflict` when another process holds
  /// the folder, `unsupported` when the database is newer than this program, `corrupt` for a changed
  /// migration. Read-only, `not_found` without a database, and `unsupported` for one that is older.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  /// The schema version of the folder's database, which this program could open; nothing where there is none.
  /// Nothing is locked or changed, also beside a daemon. `unsupported` and `corrupt` as open.
  [[nodiscard]] static Result<std::optional<std::int64_t>> look(const std::filesystem::path& data_dir);
  /// Whether the folder's file system has room for what `open` has to change in a database that `look` takes:
  /// `storage_full` as open.
  [[nodiscard]] static Result<void> check_room(const std::filesystem::path& data_dir);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Runs `f(Tx&) -> Result<T>` on the writer thread and returns what it returned once it is committed and
  /// synced. An error from `f` undoes what `f` did, and nothing else. Blocks; never call it from inside `f`.
  /// Errors of its own: `unavailable` (queue full, or stopping), `storage_full`, `io`. `what` is for
  /// messages.
  template <typename F>
  auto write(std::string_view what, F&& f) -> std::invoke_result_t<F&, Tx&> {
    std::optional<std::invoke_result_t<F&, Tx&>> answer;
    auto work = [&](Tx& tx) -> Result<void> {
      answer.emplace(f(tx));
      if (!*answer) return std::unexpected(answer->error());
      return {};
    };
    TRY(submit(
        what, [](void* context, Tx& tx) { return (*static_cast<decltype(work)*>(context))(tx); }, &work));
    return std::move(*answer);
  }

  /// Runs `f(Reader&) -> Result<T>` on this thread in one read transaction. `unavailable` when no connection
  /// becomes free within kMaxReadTime, `deadline_exceeded` when a statement runs longer than that.
  template <typename F>
  auto read(F&& f) -> std::invoke_result_t<F&, Reader&> {
    std::optional<std::invoke_result_t<F&, Reader&>> answer;
    auto work = [&](Reader& reader) { answer.emplace(f(reader)); };
    TRY(with_reader([](void* context, Reader& reader) { (*static_cast<decltype(work)*>(context))(reader); },
                    &work));
    return std::move(*answer);
  }

  /// Adds a function that the writer thread calls after each successful COMMIT: it must only wake somebody.
  /// Returns a number for `remove_listener`, after whose return it is not called any more.
  std::size_t add_commit_listener(std::function<void()> listener);
  void remove_listener(std::size_t listener);
  /// Runs `hook` in each transaction that begins from now on, until the store stops or another one takes its
  /// place.
  void set_commit_hook(std::shared_ptr<CommitHook> hook);

  /// Refuses new writes, finishes those that wait, truncates the WAL and closes. Idempotent; the destructor
  /// calls it.
  void stop();

  struct Stats {
    std::uint64_t commits = 0;  ///< group commits since open
    std::uint64_t items = 0;    ///< writes committed
    std::uint64_t refused = 0;  ///< refused because the queue was full
    std::uint64_t checkpoints = 0;
    std::size_t queued = 0;       ///< waiting now
    std::uint64_t wal_bytes = 0;  ///< after the last COMMIT
  };
  [[nodiscard]] Stats stats() const;
  [[nodiscard]] const std::filesystem::path& data_dir() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  Result<void> submit(std::string_view what, Result<void> (*run)(void*, Tx&), void* context);
  Result<void> with_reader(void (*run)(void*, Reader&), void* context);

  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::store
