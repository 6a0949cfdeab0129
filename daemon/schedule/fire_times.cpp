#include "daemon/schedule/fire_times.hpp"

#include <algorithm>

namespace driftgate::schedule {
namespace {

using Kind = Resolved::Kind;

/// Calls `offer` for each fire time of one local day, not in order, some twice.
template <typename F>
void each_of_day(const Cron& cron, const Zone& zone, std::int64_t day, F offer) {
  for (std::size_t hour = 0; hour < cron.hours.size(); ++hour) {
    if (!cron.hours[hour]) continue;
    for (std::size_t minute = 0; minute < cron.minutes.size(); ++minute) {
      if (!cron.minutes[minute]) continue;
      const auto found = zone.to_utc({day, static_cast<int>(60 * hour + minute)});
      if (found.kind != Kind::never || !cron.any_hour) offer(found.first);
      if (found.kind == Kind::twice && cron.any_hour) offer(found.second);
    }
  }
}

bool matches(const Cron& cron, std::int64_t day) {
  const auto civil = civil_day(day);
  return cron.matches_day(civil.month, civil.day, civil.weekday);
}

/// The earliest fire time of one local day after `after_s`.
std::optional<std::int64_t> next_of_day(const Cron& cron, const Zone& zone, std::int64_t day,
                                        std::int64_t after_s) {
  std::optional<std::int64_t> best;
  each_of_day(cron, zone, day, [&](std::int64_t utc_s) {
    if (utc_s > after_s && (!best || utc_s < *best)) best = utc_s;
  });
  return best;
}

}  // namespace

std::optional<std::int64_t> next_fire(const Cron& cron, const Zone& zone, std::int64_t after_s) {
  // A change of the clock may move a day's times past those of a day beside it.
  const auto first = zone.to_local(after_s).day - 1;
  for (auto day = first; day <= first + kMaxDaysAhead; ++day) {
    if (!matches(cron, day)) continue;
    auto found = next_of_day(cron, zone, day, after_s);
    if (!found) continue;
    if (matches(cron, day + 1)) {
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

std::vector<std::int64_t> fires_between(const Cron& cron, const Zone& zone, std::int64_t after_s,
                                        std::int64_t until_s, std::size_t limit) {
  std::vector<std::int64_t> fires;
  const auto last = zone.to_local(until_s).day + 1;
  // Times of a day may lie among those of the two beside it, but not behind them.
  for (auto day = zone.to_local(after_s).day - 1; day <= last && fires.size() < limit + 3 * 1'440; ++day) {
    if (!matches(cron, day)) continue;
    each_of_day(cron, zone, day, [&](std::int64_t utc_s) {
      if (after_s < utc_s && utc_s <= until_s) fires.push_back(utc_s);
    });
  }
  std::ranges::sort(fires);
  const auto repeated = std::ranges::unique(fires);
  fires.erase(repeated.begin(), repeated.end());
  if (fires.size() > limit) fires.resize(limit);
  return fires;
}

}  // namespace driftgate::schedule
