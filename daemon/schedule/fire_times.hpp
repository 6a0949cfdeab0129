#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/schedule/cron.hpp"
#include "daemon/schedule/zone.hpp"

namespace driftgate::schedule {

/// How far ahead a fire time is looked for: 29 February may be eight years away.
inline constexpr int kMaxDaysAhead = 9 * 366;

/// The first fire time after `after_s`, UTC seconds since the epoch; nothing when there is none in
/// kMaxDaysAhead days.
///
/// Where the clock changes: an expression with fixed hours fires once for each of its local times. A time
/// that the change skips fires at the first instant after the gap, one that comes twice fires the first time.
/// One whose hour field begins with `*` follows elapsed time: skipped times do not fire, doubled ones fire
/// twice.
[[nodiscard]] std::optional<std::int64_t> next_fire(const Cron& cron, const Zone& zone, std::int64_t after_s);

/// Up to `count` fire times after `after_s`.
[[nodiscard]] std::vector<std::int64_t> next_fires(const Cron& cron, const Zone& zone, std::int64_t after_s,
                                                   std::size_t count);

/// The fire times after `after_s` up to and with `until_s`, in order; at most `limit`. As next_fire again and
/// again, in time that grows with the days and not with the square of their fire times.
[[nodiscard]] std::vector<std::int64_t> fires_between(const Cron& cron, const Zone& zone,
                                                      std::int64_t after_s, std::int64_t until_s,
                                                      std::size_t limit);

}  // namespace driftgate::schedule
