#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace driftgate::net {

/// A fixed number of threads behind a bounded queue. Work must not throw.
class WorkerPool {
 public:
  WorkerPool(std::size_t threads, std::size_t queue_limit);
  /// Runs what is queued, then joins.
  ~WorkerPool();

  /// False when the queue is full or the pool is stopping; the work is then not taken.
  [[nodiscard]] bool submit(std::function<void()> work);
  /// The next part of work that was taken before: queued also where the queue is full.
  [[nodiscard]] bool submit_next(std::function<void()> work);

 private:
  bool take(std::function<void()> work, std::size_t queue_limit);
  void run();
  const std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace driftgate::net
