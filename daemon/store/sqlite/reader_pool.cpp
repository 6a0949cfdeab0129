#include "daemon/store/sqlite/reader_pool.hpp"

#include <chrono>
#include <utility>

#include "daemon/store/store.hpp"

namespace driftgate::store {

ReaderPool::ReaderPool(std::vector<std::unique_ptr<Connection>> connections)
    : idle_(std::move(connections)), total_(idle_.size()) {}

Result<void> ReaderPool::run(void (*read)(void*, Reader&), void* context) {
  auto acquired = TRY(acquire());
  struct Lease {
    ReaderPool& pool;
    std::unique_ptr<Connection> connection;
    ~Lease() {
      connection->set_deadline(std::nullopt);
      if (!connection->autocommit()) [[maybe_unused]]
        const auto ended = connection->execute("ROLLBACK", "end a read");
      pool.release(std::move(connection));
    }
  } lease{*this, std::move(acquired)};
  lease.connection->set_deadline(std::chrono::steady_clock::now() + kMaxReadTime);
  TRY(lease.connection->execute("BEGIN", "begin a read"));
  Reader reader(*lease.connection);
  read(context, reader);
  return {};
}

Result<std::unique_ptr<Connection>> ReaderPool::acquire() {
  std::unique_lock lock(mutex_);
  const bool ready = changed_.wait_for(lock, kMaxReadTime, [&] { return closed_ || !idle_.empty(); });
  if (closed_) return schema::fail(ErrorCode::unavailable, "the daemon is stopping");
  if (!ready)
    return schema::fail(ErrorCode::unavailable, "all database readers are busy: try again in a moment");
  auto connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void ReaderPool::release(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
  changed_.notify_all();
}

void ReaderPool::close() {
  std::unique_lock lock(mutex_);
  const bool first = !std::exchange(closed_, true);
  changed_.notify_all();
  if (!first) return;
  changed_.wait(lock, [&] { return idle_.size() == total_; });
  idle_.clear();
}

}  // namespace driftgate::store
