#include "daemon/store/sqlite/writer.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdlib>
#include <exception>
#include <utility>

#include "schema/failf.hpp"

namespace driftgate::store {

namespace {
constexpr std::uint64_t kPageBytes = 4'096 + 24;  ///< a page and its frame header in the WAL

// Run for each group or item; compiling them again took longer than running them.
constexpr Sql kBegin{"begin", "BEGIN IMMEDIATE"};
constexpr Sql kCommit{"commit", "COMMIT"};
constexpr Sql kSavepoint{"begin an item", "SAVEPOINT item"};
constexpr Sql kRelease{"end an item", "RELEASE item"};

using Clock = std::chrono::steady_clock;
}  // namespace

Writer::Writer(std::unique_ptr<Connection> connection, std::size_t queue_limit,
               std::function<void(const std::string&)> on_unknown_commit)
    : connection_(std::move(connection)),
      guard_(*connection_),
      queue_limit_(queue_limit),
      on_unknown_commit_(std::move(on_unknown_commit)) {
  const auto count_pages = [](void* writer, sqlite3*, const char*, int pages) {
    static_cast<Writer*>(writer)->wal_pages_ = static_cast<std::uint64_t>(pages);
    return SQLITE_OK;
  };
  sqlite3_wal_hook(connection_->handle(), +count_pages, this);
  thread_ = std::thread([this] { loop(); });
  thread_id_ = thread_.get_id();
}

Result<void> Writer::submit(std::string_view what, Result<void> (*run)(void*, Tx&), void* context) {
  Item item{what, run, context};
  std::unique_lock lock(mutex_);
  if (std::this_thread::get_id() == thread_id_) {
    return schema::failf(ErrorCode::internal, "{}: a write inside a write would wait for itself", what);
  }
  if (stopping_) return schema::failf(ErrorCode::unavailable, "{}: the daemon is stopping", what);
  if (queue_.size() >= queue_limit_) {
    ++stats_.refused;
    return schema::failf(ErrorCode::unavailable, "{}: {} writes are already waiting: try again in a moment",
                         what, queue_limit_);
  }
  queue_.push_back(&item);
  arrived_.notify_one();
  item.changed.wait(lock, [&] { return item.done; });
  return std::move(item.result);
}

void Writer::loop() {
  connection_->bind_to_this_thread();
  while (Item* first = wait_for_item()) {
    Group group = run_group(first);
    deliver(group);
    checkpoint_if_due();
  }
  close();
}

Writer::Item* Writer::wait_for_item() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  return take_first();
}

Writer::Item* Writer::next_item(const Group& group, Clock::time_point deadline) {
  if (group.size() >= kMaxGroup || Clock::now() >= deadline) return nullptr;
  const std::lock_guard lock(mutex_);
  return take_first();
}

/// With the mutex locked.
Writer::Item* Writer::take_first() {
  if (queue_.empty()) return nullptr;
  Item* item = queue_.front();
  queue_.pop_front();
  return item;
}

/// Runs what has queued in one transaction and commits it. Every item of the group then has its result.
Writer::Group Writer::run_group(Item* first) {
  Group group;
  const auto deadline = Clock::now() + kMaxGroupTime;
  const std::shared_ptr<CommitHook> hook = [&] {
    const std::lock_guard lock(mutex_);
    return hook_;
  }();
  Result<void> transaction = begin(hook.get());
  for (Item* item = first; item != nullptr; item = transaction ? next_item(group, deadline) : nullptr) {
    group.push_back(item);
    if (!transaction) break;
    item->result = run_item(*item);
    if (!item->result) forget();
    if (connection_->autocommit()) {
      // SQLite undoes the whole transaction after some errors (full disk, I/O): then everybody's work is
      // gone.
      transaction = item->result ? schema::fail(ErrorCode::internal, "a write ended the transaction")
                                 : Result<void>(std::unexpected(item->result.error()));
    }
  }
  finish_group(group, std::move(transaction), hook.get());
  return group;
}

Result<void> Writer::begin(CommitHook* hook) {
  auto begun = connection_->run(kBegin);
  if (!begun || hook == nullptr) return begun;
  Tx tx(*connection_);
  return hook->begun(tx);
}

/// What is kept beside the database may be of what was undone.
void Writer::forget() {
  connection_->forget();
  guard_.forget();
}

Result<void> Writer::run_item(Item& item) {
  TRY(guard_.begin());
  TRY(connection_->run(kSavepoint));
  Tx tx(*connection_);
  Result<void> done;
  try {
    done = item.run(item.context, tx);
  } catch (const std::exception& error) {
    done = schema::failf(ErrorCode::internal, "{}: {}", item.what, error.what());
  }
  if (done) done = guard_.check();
  if (!done && !connection_->autocommit()) {
    TRY(connection_->execute("ROLLBACK TO item", item.what));
  }
  if (!connection_->autocommit()) {
    TRY(connection_->run(kRelease));
  }
  return done;
}

void Writer::finish_group(Group& group, Result<void> transaction, CommitHook* hook) {
  std::uint64_t committed = 0;
  for (const Item* item : group) committed += item->result ? 1 : 0;
  if (transaction && committed > 0) transaction = commit(hook);
  if (!connection_->autocommit()) {
    [[maybe_unused]] const auto undone = connection_->execute("ROLLBACK", "undo");
  }
  if (!transaction) {
    forget();
    for (Item* item : group) {
      if (item->result) item->result = std::unexpected(transaction.error());
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  stats_.commits += committed > 0 ? 1 : 0;
  stats_.items += committed;
  stats_.wal_bytes = wal_pages_ * kPageBytes;
}

Result<void> Writer::commit(CommitHook* hook) {
  if (hook != nullptr) {
    Tx tx(*connection_);
    TRY(hook->before_commit(tx));
  }
  auto done = connection_->run(kCommit);
  if (!done && done.error().code == ErrorCode::io) {
    on_unknown_commit_(
        fmt::format("{}; it is unknown whether the last writes are on disk. Stopping at once: check the disk "
                    "and start again, and "
                    "repeat requests with the same idempotency key",
                    done.error().message));
    std::abort();
  }
  return done;
}

void Writer::deliver(Group& group) {
  bool committed = false;
  {
    const std::lock_guard lock(mutex_);
    for (Item* item : group) {
      committed = committed || item->result.has_value();
      item->done = true;
      item->changed.notify_one();  // under the lock: the item dies as soon as its owner sees `done`
    }
  }
  if (!committed) return;
  const std::lock_guard lock(listeners_mutex_);
  for (const auto& [number, listener] : listeners_) listener();
}

void Writer::checkpoint_if_due() {
  const std::uint64_t wal_bytes = wal_pages_ * kPageBytes;
  if (wal_bytes < last_wal_bytes_) next_checkpoint_bytes_ = kPassiveCheckpointBytes;  // the WAL began anew
  last_wal_bytes_ = wal_bytes;
  if (wal_bytes < next_checkpoint_bytes_) return;
  const int mode =
      wal_bytes > kTruncateCheckpointBytes ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  const int rc = sqlite3_wal_checkpoint_v2(connection_->handle(), nullptr, mode, nullptr, nullptr);
  next_checkpoint_bytes_ = wal_bytes + kPassiveCheckpointBytes;
  if ((rc & 0xff) == SQLITE_IOERR) {
    on_unknown_commit_(
        connection_->last_error("checkpoint").message +
        "; the database file may be incomplete. Stopping at once: check the disk and start again");
    std::abort();
  }
  const std::lock_guard lock(mutex_);
  stats_.checkpoints += rc == SQLITE_OK ? 1 : 0;
}

void Writer::close() {
  sqlite3_wal_checkpoint_v2(connection_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  connection_.reset();
}

std::size_t Writer::add_listener(std::function<void()> listener) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.emplace(next_listener_, std::move(listener));
  return next_listener_++;
}

void Writer::remove_listener(std::size_t listener) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.erase(listener);
}

void Writer::set_commit_hook(std::shared_ptr<CommitHook> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void Writer::stop() {
  const std::lock_guard once(stop_mutex_);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    arrived_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Store::Stats Writer::stats() const {
  const std::lock_guard lock(mutex_);
  Store::Stats stats = stats_;
  stats.queued = queue_.size();
  return stats;
}

}  // namespace driftgate::store
