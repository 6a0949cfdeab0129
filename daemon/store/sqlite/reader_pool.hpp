#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A few read-only connections, each used by one thread at a time for one short transaction.
class ReaderPool {
 public:
  explicit ReaderPool(std::vector<std::unique_ptr<Connection>> connections);
  ~ReaderPool() { close(); }
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  Result<void> run(void (*read)(void*, Reader&), void* context);
  /// Refuses new reads, waits for those that run and closes. Idempotent.
  void close();

 private:
  Result<std::unique_ptr<Connection>> acquire();
  void release(std::unique_ptr<Connection> connection);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Connection>> idle_;
  const std::size_t total_;
  bool closed_ = false;
};

}  // namespace driftgate::store
