#include "daemon/pipeline/clock.hpp"

#include <algorithm>

#include "daemon/base/clock.hpp"

namespace driftgate::pipeline {

SystemClock::SystemClock(std::int64_t not_before_us)
    : steady_start_(std::chrono::steady_clock::now()),
      wall_start_us_(std::max(base::wall_clock_us(), not_before_us)) {}

std::int64_t SystemClock::now_us() {
  const auto passed = std::chrono::steady_clock::now() - steady_start_;
  return wall_start_us_ + std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
}

std::int64_t SystemClock::wall_offset_us() {
  return base::wall_clock_us() - now_us();
}

}  // namespace driftgate::pipeline
