#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "schema/error.hpp"

namespace driftgate::gpu {

/// Runs the exchanges of a rank, in order, in a thread of its own while the rank computes. After the first
/// error no further job is run.
class ExchangeThread {
 public:
  using Job = std::function<schema::Result<void>()>;
  static constexpr std::size_t kMaxQueued = 8;

  ExchangeThread();
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;
  /// Waits for the running job and discards the others.
  ~ExchangeThread();

  /// Queues a job, waiting while the queue is full (kMaxQueued), and returns its number, counted from 1.
  std::uint64_t submit(Job job);
  /// Waits until the job with this number has ended. Errors: the first error of any job so far. Job 0 has
  /// always ended.
  [[nodiscard]] schema::Result<void> wait(std::uint64_t job);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::uint64_t submitted_ = 0, over_ = 0;
  std::optional<schema::Error> error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace driftgate::gpu
