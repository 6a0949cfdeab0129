#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/store/sqlite/append_guard.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::store {

/// The thread that owns the only writing connection: takes items from a bounded queue, runs each under a
/// SAVEPOINT, commits them together, answers after the COMMIT, and does the checkpoints.
class Writer {
 public:
  Writer(std::unique_ptr<Connection> connection, std::size_t queue_limit,
         std::function<void(const std::string&)> on_unknown_commit);
  ~Writer() { stop(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Result<void> submit(std::string_view what, Result<void> (*run)(void*, Tx&), void* context);
  std::size_t add_listener(std::function<void()> listener);
  void remove_listener(std::size_t listener);
  void set_commit_hook(std::shared_ptr<CommitHook> hook);
  /// Finishes what waits, truncates the WAL, closes the connection and joins.
  void stop();
  [[nodiscard]] Store::Stats stats() const;

 private:
  struct Item {
    std::string_view what;
    Result<void> (*run)(void*, Tx&);
    void* context;
    Result<void> result{};
    bool done = false;
    std::condition_variable changed{};
  };
  using Group = std::vector<Item*>;

  void loop();
  Item* wait_for_item();
  Item* take_first();
  Item* next_item(const Group& group, std::chrono::steady_clock::time_point deadline);
  Group run_group(Item* first);
  Result<void> run_item(Item& item);
  Result<void> begin(CommitHook* hook);
  void finish_group(Group& group, Result<void> transaction, CommitHook* hook);
  Result<void> commit(CommitHook* hook);
  void deliver(Group& group);
  void checkpoint_if_due();
  void close();

  void forget();

  std::unique_ptr<Connection> connection_;
  AppendGuard guard_;
  const std::size_t queue_limit_;
  const std::function<void(const std::string&)> on_unknown_commit_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item*> queue_;  ///< at most queue_limit_
  std::shared_ptr<CommitHook> hook_;
  bool stopping_ = false;
  Store::Stats stats_;

  std::mutex listeners_mutex_;
  std::map<std::size_t, std::function<void()>> listeners_;
  std::size_t next_listener_ = 0;

  std::uint64_t wal_pages_ = 0;
  std::uint64_t last_wal_bytes_ = 0;
  std::uint64_t next_checkpoint_bytes_ = kPassiveCheckpointBytes;
  std::mutex stop_mutex_;
  std::thread thread_;
  std::thread::id thread_id_;
};

}  // namespace driftgate::store
