#pragma once

#include <cstdint>
#include <optional>

#include "daemon/schedule/fire_times.hpp"

namespace driftgate::schedule {

/// A fire time that is decided within this is on time.
inline constexpr std::int64_t kOnTimeSeconds = 60;
/// Missed fire times that are counted; there may be more.
inline constexpr int kMaxMissed = 500;

enum class Misfire : std::uint8_t {
  skip,      ///< what was missed is not made up for
  run_once,  ///< the newest missed one runs when it is not later than the grace time
};

/// What a due schedule does now.
struct DueFire {
  std::int64_t fire_s = 0;  ///< the newest fire time that is due
  bool run = false;         ///< false: a misfire
  bool late = false;        ///< run or not, it is not on time
  int missed = 0;           ///< earlier fire times that are due too; they are dropped
  std::optional<std::int64_t> next_s{};
};

/// `due_s`, a fire time, is not after `now_s`.
[[nodiscard]] DueFire decide_due(const Cron& cron, const Zone& zone, std::int64_t due_s, std::int64_t now_s,
                                 Misfire policy, std::int64_t grace_s);

}  // namespace driftgate::schedule
