#include "daemon/net/worker_pool.hpp"

#include <limits>
#include <utility>

namespace driftgate::net {

WorkerPool::WorkerPool(std::size_t threads, std::size_t queue_limit) : queue_limit_(queue_limit) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::submit(std::function<void()> work) {
  return take(std::move(work), queue_limit_);
}

bool WorkerPool::submit_next(std::function<void()> work) {
  return take(std::move(work), std::numeric_limits<std::size_t>::max());
}

bool WorkerPool::take(std::function<void()> work, std::size_t queue_limit) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= queue_limit) return false;
    queue_.push_back(std::move(work));
  }
  ready_.notify_one();
  return true;
}

void WorkerPool::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace driftgate::net
