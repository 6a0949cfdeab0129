#pragma once

#include <cstdint>

namespace driftgate::base {

/// The system's wall clock now, µs since the epoch. It may be set back; what must not go back with it takes
/// pipeline::SystemClock.
[[nodiscard]] std::int64_t wall_clock_us();

}  // namespace driftgate::base
