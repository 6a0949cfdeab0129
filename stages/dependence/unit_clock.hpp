#pragma once

#include <algorithm>
#include <cstdint>

namespace driftgate::stages {

/// Cuts the times of routing into units of equal length. Of a longer pause kLongestGapUs count, and a time
/// before the newest unit belongs to that one.
struct UnitClock {
  static constexpr std::int64_t kLongestGapUs = 60'000'000;

  std::int64_t index = 0;  ///< of the unit that has not ended: time of routing over its length; 0: none

  /// How many units have ended before this time.
  std::int64_t advance(std::int64_t routed_us, std::int64_t unit_us) {
    const std::int64_t here = std::max<std::int64_t>(1, routed_us / unit_us);
    if (index == 0) index = here;
    const std::int64_t ended = std::clamp<std::int64_t>(here - index, 0, kLongestGapUs / unit_us);
    index = std::max(index, here);
    return ended;
  }
};

}  // namespace driftgate::stages
