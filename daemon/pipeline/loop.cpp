#include "daemon/pipeline/loop.hpp"

#include <algorithm>
#include <chrono>

#include "daemon/store/sqlite/write_scope.hpp"

namespace driftgate::pipeline {

void Loop::run(Tick tick) {
  const std::lock_guard guard(mutex_);
  thread_ = std::thread([this, tick = std::move(tick)] { work_off(tick); });
  thread_id_ = thread_.get_id();
}

void Loop::stop() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::size_t Loop::queued() const {
  const std::lock_guard guard(mutex_);
  return queue_.size();
}

void Loop::post(std::function<void()> work) {
  if (!threaded_) return work();
  {
    const std::lock_guard guard(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

/// The caller waits, so its write scope lives until the work is done.
bool Loop::try_post(std::function<void()> work) {
  auto scoped = [scope = store::current_write_scope(), work = std::move(work)] {
    const store::EnterWriteScope entered(scope);
    work();
  };
  {
    const std::lock_guard guard(mutex_);
    if (stopping_ || queue_.size() >= kMaxQueuedEvents) return false;
    queue_.push_back(std::move(scoped));
  }
  wake_.notify_one();
  return true;
}

void Loop::work_off(const Tick& tick) {
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_until(lock, next, [&] { return stopping_ || !queue_.empty(); });
    while (!stopping_ && !queue_.empty()) {
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
    if (stopping_ || std::chrono::steady_clock::now() < next) continue;
    lock.unlock();
    const auto wait_us = std::max<std::int64_t>(tick(), 1'000);
    lock.lock();
    next = std::chrono::steady_clock::now() + std::chrono::microseconds(wait_us);
  }
}

}  // namespace driftgate::pipeline
