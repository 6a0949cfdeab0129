#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "stages/canary/canary_impl.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Action;
using schema::Verdict;

/// A dwell that never ends: after the last probation.
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kMostDoublings = 20;

/// An order that is carried out until its clause recovers.
bool lasts(Action action) {
  return action >= Action::sample && action <= Action::fallback;
}

bool uses_fallback(Action action) {
  return action == Action::route_slice || action == Action::fallback;
}

std::int64_t dwell_needed(const WatchedClause& watched, const schema::Recovery& recovery) {
  if (watched.trip->phase != TripPhase::on_fallback) return recovery.min_dwell_ms;
  if (watched.relapses > kMaxProbations) return kForever;
  const std::uint32_t doublings = std::min(std::max(1U, watched.relapses) - 1, kMostDoublings);
  if (recovery.min_dwell_ms > (kForever >> doublings)) return kForever;
  return recovery.min_dwell_ms << doublings;
}

std::string phase_text(const Trip& trip, const WatchedClause& watched) {
  if (trip.phase == TripPhase::probation) return " Given back from the fallback kernel on probation.";
  if (trip.phase != TripPhase::on_fallback) return {};
  if (watched.relapses > kMaxProbations) {
    return fmt::format(" On the fallback kernel to the end: it was given back {} times and failed again.",
                       kMaxProbations);
  }
  return " On the fallback kernel.";
}

EscalationOrder order_of(const WatchedClause& watched) {
  return {watched.trip->action, watched.clause.address(), watched.where, watched.trip->rule,
          fmt::format("{}{} has not recovered: {}", watched.clause.address(), on_slice(watched.where),
                      watched.trip->message)};
}

void mark_recovering(const WatchedClause& watched, const schema::Recovery& recovery, std::int64_t now_ms,
                     schema::ClauseVerdict& verdict) {
  const Trip& trip = *watched.trip;
  verdict.verdict = Verdict::violated;
  verdict.no_harm_only = false;
  verdict.rule = schema::VerdictRule::recovering;
  verdict.details["clean_windows"] = trip.clean_windows;
  verdict.details["clean_windows_needed"] = recovery.clean_windows;
  verdict.details["dwell_ms"] = static_cast<double>(now_ms - trip.at_ms);
  verdict.details["dwell_needed_ms"] = static_cast<double>(dwell_needed(watched, recovery));
  if (trip.phase == TripPhase::on_fallback) verdict.details["on_fallback"] = 1;
  if (trip.phase == TripPhase::probation) verdict.details["on_probation"] = 1;
  verdict.message = fmt::format("{} Recovering: {} of {} clean windows.{}", trip.message, trip.clean_windows,
                                recovery.clean_windows, phase_text(trip, watched));
}

}  // namespace

CanaryState::Impl::Routing CanaryState::Impl::routing() const {
  Routing routing;
  each_watched([&](const WatchedClause& watched) {
    if (!watched.trip || watched.trip->phase != TripPhase::on_fallback) return;
    if (watched.trip->action == Action::fallback) routing.all = true;
    if (watched.trip->action == Action::route_slice) routing.slices.push_back(watched.where);
  });
  std::ranges::sort(routing.slices);
  const auto [first, last] = std::ranges::unique(routing.slices);
  routing.slices.erase(first, last);
  return routing;
}

/// Every request of `where` belongs to a slice that the fallback kernel serves.
bool CanaryState::Impl::inside_fallback(const schema::SliceWhere& where) const {
  const Routing now = routing();
  return std::ranges::any_of(
      now.slices, [&](const schema::SliceWhere& slice) { return std::ranges::includes(where, slice); });
}

/// Verdicts of tripped streams stay violated until the stream was clean for long enough. What is on the
/// fallback kernel gives no evidence: after its dwell, in windows in which nothing else is violated, it is
/// given back on probation.
void CanaryState::Impl::follow_trips(const CanaryContext& context, std::vector<Judged>& judged,
                                     CanaryDecision& decision) {
  const schema::Recovery& recovery = escalation.recovery;
  const auto made_by = [&](const WatchedClause& watched, const Judged& item) {
    return item.watched == &watched;
  };
  const bool quiet = std::ranges::none_of(judged, [](const Judged& item) {
    return item.verdict.verdict == Verdict::violated && !item.held && !item.watched->trip;
  });
  each_stream([&](auto& stream) {
    WatchedClause& watched = stream.watched;
    if (!watched.trip) return;
    Trip& trip = *watched.trip;
    const bool away = trip.phase == TripPhase::on_fallback;
    const bool violated_again = !away && std::ranges::any_of(judged, [&](const Judged& item) {
      return made_by(watched, item) && item.verdict.verdict == Verdict::violated;
    });
    if (violated_again) return;
    const std::uint64_t evidence = away ? windows_read : stream.evidence();
    if (evidence != trip.evidence_seen) {
      trip.clean_windows = (away ? quiet : stream.clean()) ? trip.clean_windows + 1 : 0;
      trip.evidence_seen = evidence;
    }
    const bool ready = trip.clean_windows >= recovery.clean_windows &&
                       context.now_ms - trip.at_ms >= dwell_needed(watched, recovery);
    if (ready && !away) {
      decision.recovered.push_back(order_of(watched));
      decision.reasons.push_back(fmt::format("{}{} recovered: {} clean windows since it was violated.",
                                             watched.clause.address(), on_slice(watched.where),
                                             trip.clean_windows));
      watched.trip.reset();
      return;
    }
    if (ready && !context.paused) {
      stream.restart();
      trip.phase = TripPhase::probation;
      trip.at_ms = context.now_ms;
      trip.clean_windows = 0;
      trip.evidence_seen = stream.evidence();
    }
    for (Judged& item : judged) {
      if (!made_by(watched, item)) continue;
      item.held = true;
      if (item.verdict.verdict == Verdict::error) continue;
      mark_recovering(watched, recovery, context.now_ms, item.verdict);
    }
  });
}

/// Every order that lasts starts fresh processes, from which recovery is judged. A slice that is routed away
/// takes its failures out of the traffic that the clause's other streams counted: they begin afresh as well.
void CanaryState::Impl::trip(const CanaryContext& context, const std::vector<Judged>& judged,
                             const EscalationDecision& orders) {
  std::vector<std::string> purged;
  each_stream([&](auto& stream) {
    WatchedClause& watched = stream.watched;
    const auto made = std::ranges::find_if(judged, [&](const Judged& item) {
      const Verdict verdict = item.verdict.verdict;
      return item.watched == &watched && item.is_fresh() &&
             (verdict == Verdict::violated || verdict == Verdict::error);
    });
    if (made == judged.end()) return;
    const auto order = std::ranges::find_if(orders.orders, [&](const EscalationOrder& item) {
      return item.clause == watched.clause.address() && item.where == watched.where;
    });
    if (order == orders.orders.end() || !lasts(order->action)) return;
    // What cannot be seen freezes the ramp for as long as that lasts, and no longer.
    const bool blind = made->verdict.verdict == Verdict::error;
    if (blind && order->action == Action::freeze) return;
    const bool away = uses_fallback(order->action);
    if (away) ++watched.relapses;
    if (order->action == Action::route_slice) purged.push_back(watched.clause.address());
    stream.rearm();
    watched.trip = Trip{context.now_ms,
                        0,
                        away ? windows_read : stream.evidence(),
                        order->action,
                        away ? TripPhase::on_fallback : TripPhase::standing,
                        order->rule,
                        made->verdict.message};
  });
  each_stream([&](auto& stream) {
    const bool clause = std::ranges::find(purged, stream.watched.clause.address()) != purged.end();
    const bool away = stream.watched.trip && stream.watched.trip->phase == TripPhase::on_fallback;
    if (clause && !away) stream.rearm();
  });
}

/// Orders that were given and have not ended, strongest first.
std::vector<EscalationOrder> CanaryState::Impl::standing() const {
  std::vector<EscalationOrder> orders;
  each_watched([&](const WatchedClause& watched) {
    if (watched.trip) orders.push_back(order_of(watched));
  });
  std::ranges::stable_sort(orders, std::greater{}, &EscalationOrder::action);
  return orders;
}

bool CanaryState::Impl::holds_ramp() const {
  bool holds = false;
  each_watched(
      [&](const WatchedClause& watched) { holds = holds || (watched.trip && watched.trip->holds_ramp()); });
  return holds;
}

bool CanaryState::Impl::sampling() const {
  bool sampling = false;
  each_watched([&](const WatchedClause& watched) {
    sampling = sampling || (watched.trip && watched.trip->action == Action::sample);
  });
  return sampling;
}

/// Each notice once, until its clause is no longer violated.
void CanaryState::Impl::give_notices(const EscalationDecision& fresh, CanaryDecision& decision) {
  const auto key = [](std::string_view clause, const schema::SliceWhere& where) {
    return fmt::format("{}|{}|", clause, schema::slice_text(where));
  };
  std::erase_if(noticed, [&](const std::string& given) {
    return std::ranges::none_of(decision.verdicts, [&](const schema::ClauseVerdict& verdict) {
      return verdict.verdict != Verdict::pass && verdict.verdict != Verdict::inconclusive &&
             given.starts_with(key(verdict.clause, verdict.where));
    });
  });
  for (const EscalationOrder& order : fresh.beside) {
    const std::string name = key(order.clause, order.where) + std::string(schema::to_string(order.action));
    if (std::ranges::find(noticed, name) != noticed.end()) continue;
    noticed.push_back(name);
    decision.notices.push_back(order);
  }
}

}  // namespace driftgate::stages
