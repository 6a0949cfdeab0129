#pragma once

#include <chrono>
#include <cstdint>

namespace driftgate::pipeline {

/// Time as the pipeline sees it, injected so that tests own it.
class Clock {
 public:
  virtual ~Clock() = default;
  /// µs since the epoch; never goes back or jumps within one process.
  [[nodiscard]] virtual std::int64_t now_us() = 0;
  /// The difference between the system's wall clock and `now_us`, µs; it changes when the wall clock steps.
  [[nodiscard]] virtual std::int64_t wall_offset_us() = 0;
};

/// The wall clock as it was at the start, carried on by the monotonic clock: deadlines, soak and dwell times
/// survive a step of the wall clock, which is noticed and logged.
class SystemClock final : public Clock {
 public:
  /// `not_before_us`: the time of the newest entry of the log; a wall clock that was set back while the
  /// daemon was down does not turn its time back, nor put off a deadline.
  explicit SystemClock(std::int64_t not_before_us = 0);
  [[nodiscard]] std::int64_t now_us() override;
  [[nodiscard]] std::int64_t wall_offset_us() override;

 private:
  std::chrono::steady_clock::time_point steady_start_;
  std::int64_t wall_start_us_;
};

}  // namespace driftgate::pipeline
