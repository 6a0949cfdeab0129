#include "daemon/pipeline/clock.hpp"

namespace driftgate::pipeline {
namespace {

std::int64_t wall_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

SystemClock::SystemClock() : steady_start_(std::chrono::steady_clock::now()), wall_start_us_(wall_us()) {}

std::int64_t SystemClock::now_us() {
  const auto passed = std::chrono::steady_clock::now() - steady_start_;
  return wall_start_us_ + std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
}

std::int64_t SystemClock::wall_offset_us() {
  return wall_us() - now_us();
}

}  // namespace driftgate::pipeline
