#include "daemon/schedule/fire_times.hpp"

#include <algorithm>

namespace driftgate::schedule {
namespace {

using Kind = Resolved::Kind;

/// The earliest fire time of one local day after `after_s`.
std::optional<std::int64_t> next_of_day(const Cron& cron, const Zone& zone, std::int64_t day,
                                        std::int64_t after_s) {
  std::optional<std::int64_t> best;
  const auto offer = [&](std::int64_t utc_s) {
    if (utc_s > after_s && (!best || utc_s < *best)) best = utc_s;
  };
  for (std::size_t hour = 0; hour < cron.hours.size(); ++hour) {
    if (!cron.hours[hour]) continue;
    for (std::size_t minute = 0; minute < cron.minutes.size(); ++minute) {
      if (!cron.minutes[minute]) continue;
      const auto found = zone.to_utc({day, static_cast<int>(60 * hour + minute)});
      if (found.kind != Kind::never || !cron.any_hour) offer(found.first);
      if (found.kind == Kind::twice && cron.any_hour) offer(found.second);
    }
  }
  return best;
}

}  // namespace

std::optional<std::int64_t> next_fire(const Cron& cron, const Zone& zone, std::int64_t after_s) {
  // A change of the clock may move a day's times past those of a day beside it.
  const auto first = zone.to_local(after_s).day - 1;
  for (auto day = first; day <= first + kMaxDaysAhead; ++day) {
    const auto matches = [&](std::int64_t at) {
      const auto civil = civil_day(at);
      return cron.matches_day(civil.month, civil.day, civil.weekday);
    };
    if (!matches(day)) continue;
    auto found = next_of_day(cron, zone, day, after_s);
    if (!found) continue;
    if (matches(day + 1)) {
      const auto beside = next_of_day(cron, zone, day + 1, after_s);
      if (beside) found = std::min(*found, *beside);
    }
    return found;
  }
  return std::nullopt;
}

std::vector<std::int64_t> next_fires(const Cron& cron, const Zone& zone, std::int64_t after_s,
                                     std::size_t count) {
  std::vector<std::int64_t> fires;
  while (fires.size() < count) {
    const auto next = next_fire(cron, zone, fires.empty() ? after_s : fires.back());
    if (!next) break;
    fires.push_back(*next);
  }
  return fires;
}

}  // namespace driftgate::schedule
