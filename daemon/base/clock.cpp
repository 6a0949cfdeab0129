#include "daemon/base/clock.hpp"

#include <chrono>

namespace driftgate::base {

std::int64_t wall_clock_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace driftgate::base
