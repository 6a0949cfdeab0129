#include "daemon/pipeline/clock.hpp"

#include <algorithm>

namespace driftgate::pipeline {
namespace {

std::int64_t wall_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

SystemClock::SystemClock(std::int64_t not_before_us)
    : steady_start_(std::chrono::steady_clock::now()), wall_start_us_(std::max(wall_us(), not_before_us)) {}

std::int64_t SystemClock::now_us() {
  const auto passed = std::chrono::steady_clock::now() - steady_start_;
  return wall_start_us_ + std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
}

std::int64_t SystemClock::wall_offset_us() {
  return wall_us() - now_us();
}

}  // namespace driftgate::pipeline
