#include "daemon/schedule/misfire.hpp"

#include <algorithm>

namespace driftgate::schedule {
namespace {

/// The newest fire time that is not after `now_s`; `known_s` is one.
std::int64_t newest_fire(const Cron& cron, const Zone& zone, std::int64_t known_s, std::int64_t now_s) {
  for (std::int64_t back_s = kOnTimeSeconds;; back_s *= 2) {
    const auto from_s = std::max(known_s, now_s - back_s);
    auto found = next_fire(cron, zone, from_s);
    if (!found || *found > now_s) {
      if (from_s == known_s) return known_s;
      continue;
    }
    for (auto next = found; next && *next <= now_s; next = next_fire(cron, zone, *next)) found = next;
    return *found;
  }
}

}  // namespace

DueFire decide_due(const Cron& cron, const Zone& zone, std::int64_t due_s, std::int64_t now_s, Misfire policy,
                   std::int64_t grace_s) {
  DueFire due{.fire_s = due_s};
  while (due.missed < kMaxMissed) {
    const auto next = next_fire(cron, zone, due.fire_s);
    if (!next || *next > now_s) break;
    due.fire_s = *next;
    ++due.missed;
  }
  if (due.missed == kMaxMissed) due.fire_s = newest_fire(cron, zone, due.fire_s, now_s);
  const auto late_s = now_s - due.fire_s;
  due.late = late_s > kOnTimeSeconds;
  due.run = !due.late || (policy == Misfire::run_once && late_s <= grace_s);
  due.next_s = next_fire(cron, zone, now_s);
  return due;
}

}  // namespace driftgate::schedule
