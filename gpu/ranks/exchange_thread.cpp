#include "gpu/ranks/exchange_thread.hpp"

#include <exception>
#include <utility>

namespace driftgate::gpu {

using schema::Result;

ExchangeThread::ExchangeThread() : thread_([this] { run(); }) {}

ExchangeThread::~ExchangeThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t ExchangeThread::submit(Job job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kMaxQueued; });
  queue_.push_back(std::move(job));
  changed_.notify_all();
  return ++submitted_;
}

Result<void> ExchangeThread::wait(std::uint64_t job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ >= job; });
  if (error_) return std::unexpected(*error_);
  return {};
}

void ExchangeThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Job job = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    Result<void> result;
    if (!error_) {
      lock.unlock();
      try {
        result = job();
      } catch (const std::exception& error) {
        result = schema::fail(schema::ErrorCode::internal, error.what());
      }
      lock.lock();
    }
    if (!result) error_ = result.error();
    ++over_;
    changed_.notify_all();
  }
}

}  // namespace driftgate::gpu
