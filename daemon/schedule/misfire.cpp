#include "daemon/schedule/misfire.hpp"

namespace driftgate::schedule {

DueFire decide_due(const Cron& cron, const Zone& zone, std::int64_t due_s, std::int64_t now_s, Misfire policy,
                   std::int64_t grace_s) {
  DueFire due{.fire_s = due_s};
  while (due.missed < kMaxMissed) {
    const auto next = next_fire(cron, zone, due.fire_s);
    if (!next || *next > now_s) break;
    due.fire_s = *next;
    ++due.missed;
  }
  const auto late_s = now_s - due.fire_s;
  due.run = late_s <= kOnTimeSeconds || (policy == Misfire::run_once && late_s <= grace_s);
  due.next_s = next_fire(cron, zone, now_s);
  return due;
}

}  // namespace driftgate::schedule
