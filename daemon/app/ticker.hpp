#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace driftgate::app {

/// Calls a function at an interval, on a thread of its own, until destroyed.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick)
      : thread_([this, interval, tick = std::move(tick)] { run(interval, tick); }) {}
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void run(std::chrono::milliseconds interval, const std::function<void()>& tick) {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, interval, [this] { return stopping_; })) {
      lock.unlock();
      tick();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace driftgate::app
