#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "schema/verdict_rule.hpp"
#include "stages/canary/canary_impl.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/e_values.hpp"
#include "stages/statistics/multiple.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

/// Of all keys, that a slice leaves to the rest: one that is nearly all traffic is no slice.
constexpr double kLeastRest = 0.1;
/// All traffic waits for slices up to kDeferFactor times the e-value that it needs, where each of them shows
/// kLeastDeferredTo by itself and they leave so many of the keys.
constexpr double kDeferFactor = 4, kLeastDeferredTo = 10;
constexpr double kLeastBesideYielding = 0.5;

/// At most two standard deviations and one event over what is expected: no sign of harm.
bool unremarkable(double seen, double expected) {
  return seen <= expected + 2 * std::sqrt(std::max(0.0, expected)) + 1;
}

/// An O clause as shadow-runtime decided it: a canary mirrors nothing, so nothing newer exists.
std::optional<ClauseVerdict> carried(const CanaryContext& context, const schema::Clause& clause) {
  const auto found = std::ranges::find(context.carried, clause.address(), &ClauseVerdict::clause);
  if (found == context.carried.end()) return std::nullopt;
  ClauseVerdict verdict = *found;
  verdict.method += ", carried from shadow-runtime";
  verdict.details["carried_age_ms"] = static_cast<double>(context.carried_age_ms);
  verdict.message += fmt::format(" This was decided in shadow-runtime, {} s ago; a canary mirrors nothing.",
                                 context.carried_age_ms / 1'000);
  return verdict;
}

struct Rest {
  double all_keys = 0, keys = 0, failed = 0, candidate = 0, expected = 0;

  void take(const RateCounts& counts, double sign) {
    all_keys += sign * static_cast<double>(counts.all_keys);
    keys += sign * static_cast<double>(counts.keys);
    failed += sign * static_cast<double>(counts.failed_keys);
    candidate += sign * static_cast<double>(counts.candidate_failures);
    expected += sign * counts.expected_candidate;
  }
  [[nodiscard]] bool is_part_of(const RateCounts& whole) const {
    return all_keys >= kLeastRest * static_cast<double>(whole.all_keys);
  }
  [[nodiscard]] bool clean(const ClauseVerdict& verdict) const {
    if (verdict.limit_kind == "max") return unremarkable(failed, verdict.threshold.value_or(0) * keys);
    return verdict.limit_kind == "max_ratio" && unremarkable(candidate, expected);
  }
};

std::set<std::string> dimensions_of(const schema::SliceWhere& where) {
  std::set<std::string> names;
  for (const auto& [dimension, value] : where) names.insert(dimension);
  return names;
}

}  // namespace

RatioContext CanaryState::Impl::ratio_context() {
  const Wander& wander = incumbent.wander();
  // A history that an earlier version kept does not say whether the rate wanders.
  const double covered_s =
      ratio_plan.signs ? std::min(incumbent.covered_s(), wander.covered_s()) : incumbent.covered_s();
  return {.plan = ratio_plan,
          .labels_count = ratio_plan.labels && !dependent && covered_s >= kLeastHistoryS,
          .dependent = dependent,
          .swings = swings,
          .history_s = covered_s,
          .longest_stall_s = incumbent.longest_stall_s(),
          .dispersion_incumbent = incumbent.dispersion(),
          .dispersion_candidate = candidate.dispersion(),
          .wander = swings == schema::Swings::own ? wander.excess() : Wander::Excess{}};
}

std::vector<CanaryState::Impl::Judged> CanaryState::Impl::collect(const CanaryContext& context,
                                                                  CanaryDecision& decision) {
  std::vector<Judged> judged;
  const RatioContext ratios = ratio_context();
  for (const RateStream& stream : rates) {
    std::vector<ClauseVerdict> made;
    stream.verdicts(settings.seed, ratios, made);
    for (ClauseVerdict& verdict : made)
      judged.push_back({std::move(verdict), &stream.watched, &stream, false, false});
  }
  for (LatencyStream& stream : latencies) {
    if (swings == schema::Swings::own)
      stream.allow_for(incumbent_latency.excess(stream.metric(), stream.quantile()));
    judged.push_back({stream.verdict(settings.seed), &stream.watched, nullptr, false, false});
  }
  if (context.engine_down) judge_outage(*context.engine_down, judged);
  SignalFigures figures;
  figures.telemetry_age_ms = context.telemetry_age_ms;
  for (SignalStream& signal : signals) {
    auto verdict = decide_signal(signal.watched.clause, figures, levels.alpha_harm);
    // What shadow-runtime decided was answered there: it is listed, and orders nothing again.
    const bool old = !verdict.has_value();
    if (old) verdict = carried(context, signal.watched.clause);
    if (!verdict) {
      decision.reasons.push_back(signal.watched.clause.address() +
                                 " was decided in shadow-runtime; a canary measures nothing new of it.");
      continue;
    }
    signal.looks = windows_read;
    signal.last_clean = verdict->verdict == Verdict::pass;
    judged.push_back({std::move(*verdict), &signal.watched, nullptr, false, old});
  }
  return judged;
}

bool CanaryState::Impl::ordered_to_route(const ClauseVerdict& verdict) const {
  ClauseVerdict violated = verdict;
  violated.verdict = Verdict::violated;
  return escalate(escalation, schema::Stage::canary, {violated}).action == schema::Action::route_slice;
}

/// A global action may also rest on the mean of harm e-values of hard clauses: Σ v·e ≥ 1/α, v the part of
/// each test at its level, over those whose order is global; the largest then stands for all. Slices that
/// would be routed away are left out, since all traffic counts their failures again.
void CanaryState::Impl::judge_together(std::vector<Judged>& judged) const {
  std::vector<double> e_values;
  std::vector<double> parts;
  Judged* largest = nullptr;
  double most = 0;
  for (Judged& item : judged) {
    const bool hard = item.verdict.severity == schema::Severity::hard;
    if (!item.verdict.e_value || !hard || item.watched->trip || ordered_to_route(item.verdict)) continue;
    if (item.verdict.verdict == Verdict::violated) return;
    const double part = 1 / (levels.harm_needed(*item.watched) * levels.alpha_harm);
    e_values.push_back(*item.verdict.e_value);
    parts.push_back(part);
    if (part * e_values.back() <= most) continue;
    most = part * e_values.back();
    largest = &item;
  }
  const double joint = weighted_e_value(e_values, parts);
  const double needed = 1 / levels.alpha_harm;
  if (largest == nullptr || joint < needed) return;
  ClauseVerdict& verdict = largest->verdict;
  verdict.verdict = Verdict::violated;
  verdict.no_harm_only = false;
  verdict.details["e_joint"] = joint;
  verdict.details["e_joint_needed"] = needed;
  verdict.message += fmt::format(
      " Together the harm e-values of all hard clauses, each by its part, reach {} of {} needed, and this "
      "one "
      "is the largest.",
      figure(joint), figure(needed));
}

/// Slices that are routed away need no more than e-Holm over all tests on slices: once one is rejected, the
/// next needs less (docs/design/statistics.md, "Many tests in one canary").
void CanaryState::Impl::judge_slices(std::vector<Judged>& judged) const {
  std::vector<double> e_values;
  std::vector<Judged*> tests;
  for (Judged& item : judged) {
    if (item.verdict.where.empty() || !item.verdict.e_value) continue;
    tests.push_back(&item);
    e_values.push_back(*item.verdict.e_value * item.watched->level_factor());
  }
  if (tests.empty()) return;
  // Places of slices not found yet, and tests without an e-value, stand for hypotheses never rejected.
  const std::size_t family = std::max<std::size_t>(tests.size(), levels.slice_tests);
  e_values.resize(family, 0.0);
  const double level = levels.alpha_harm * levels.share_of(true);
  const std::vector<bool> rejected = e_holm(e_values, level);
  const auto count = std::ranges::count(rejected, true);
  for (std::size_t i = 0; i < tests.size(); ++i) {
    ClauseVerdict& verdict = tests[i]->verdict;
    if (!rejected[i] || verdict.verdict == Verdict::violated || !ordered_to_route(verdict)) continue;
    const double weakest = static_cast<double>(family - static_cast<std::size_t>(count) + 1) / level;
    verdict.verdict = Verdict::violated;
    verdict.no_harm_only = false;
    verdict.details["e_harm_needed"] =
        std::min(*verdict.e_value, weakest / tests[i]->watched->level_factor());
    verdict.details["e_holm_tests"] = static_cast<double>(family);
    verdict.details["e_holm_rejected"] = static_cast<double>(count);
    verdict.message += fmt::format(
        " With {} of {} tests on slices rejected together, its e-value of {} is enough to route it away "
        "(e-Holm).",
        count, family, figure(*verdict.e_value));
  }
}

/// All traffic counts the failures of a slice again. Where slices are to be routed away, harm that up to half
/// of the keys account for is left to them until the e-value on all traffic is kDeferFactor times what is
/// needed: the ramp would otherwise be rolled back for what routing a slice away mends.
void CanaryState::Impl::wait_for_slices(std::vector<Judged>& judged) const {
  for (Judged& whole : judged) {
    ClauseVerdict& verdict = whole.verdict;
    const bool asked = whole.watched->defers_to_slices && whole.rate != nullptr && whole.is_fresh() &&
                       verdict.verdict == Verdict::violated;
    if (!asked) continue;
    const bool joint = verdict.details.contains("e_joint");
    const double reached = joint ? verdict.details.at("e_joint") : *verdict.e_value;
    double& needed = verdict.details.at(joint ? "e_joint_needed" : "e_harm_needed");
    if (reached >= kDeferFactor * needed || !accounted_for(whole, judged)) continue;
    needed *= kDeferFactor;
    verdict.no_harm_only = verdict.limit_kind == "max_ratio" ||
                           requirement(whole.watched->clause) == schema::Requirement::no_harm;
    verdict.verdict = schema::rederive(verdict).value_or(Verdict::inconclusive);
    verdict.message += fmt::format(
        " Slices that are to be routed away account for it, so that it is left to them until {} is reached.",
        figure(needed));
  }
}

/// Slices with the same dimensions, of at most half of all keys together, without which nothing is left of
/// this violation on all traffic; those with the largest e-values first, and none that shows little itself.
bool CanaryState::Impl::accounted_for(const Judged& whole, const std::vector<Judged>& judged) const {
  std::map<std::set<std::string>, std::vector<const Judged*>> slices;
  for (const Judged& slice : judged) {
    const ClauseVerdict& verdict = slice.verdict;
    const bool counts = verdict.clause == whole.verdict.clause && !verdict.where.empty() &&
                        verdict.limit_kind == whole.verdict.limit_kind && slice.rate != nullptr &&
                        slice.is_fresh() && verdict.e_value.value_or(0) >= kLeastDeferredTo &&
                        ordered_to_route(verdict);
    if (counts) slices[dimensions_of(verdict.where)].push_back(&slice);
  }
  const RateCounts& all = whole.rate->counts();
  for (auto& [names, by_value] : slices) {
    std::ranges::sort(by_value, std::greater{}, [](const Judged* slice) { return *slice->verdict.e_value; });
    Rest rest;
    rest.take(all, 1);
    for (const Judged* slice : by_value) {
      Rest without = rest;
      without.take(slice->rate->counts(), -1);
      if (without.all_keys < kLeastBesideYielding * static_cast<double>(all.all_keys)) continue;
      rest = without;
      if (rest.clean(whole.verdict)) return true;
    }
  }
  return false;
}

/// A slice that is nearly all traffic is left to the clause's verdict on all traffic.
void CanaryState::Impl::set_aside_wide_slices(std::vector<Judged>& judged) const {
  for (Judged& slice : judged) {
    const bool asked = !slice.verdict.where.empty() && slice.rate != nullptr && slice.is_fresh() &&
                       slice.verdict.verdict == Verdict::violated && ordered_to_route(slice.verdict);
    if (!asked) continue;
    const auto whole = std::ranges::find_if(judged, [&](const Judged& item) {
      return item.rate != nullptr && item.verdict.where.empty() &&
             item.verdict.clause == slice.verdict.clause;
    });
    if (whole == judged.end()) continue;
    Rest rest;
    rest.take(whole->rate->counts(), 1);
    rest.take(slice.rate->counts(), -1);
    if (rest.is_part_of(whole->rate->counts())) continue;
    slice.set_aside = true;
    slice.verdict.message += " This slice is nearly all of the traffic, which decides.";
  }
}

/// A violation on all traffic that slices account for, whose requests are routed away in this decision, is
/// answered by that alone when the rest shows no sign of harm. Slices with the same dimensions are disjoint,
/// so that their counts add up; the rest is then what is left of the whole.
void CanaryState::Impl::explain_by_slices(std::vector<Judged>& judged) const {
  for (Judged& whole : judged) {
    const ClauseVerdict& verdict = whole.verdict;
    const bool asked = verdict.verdict == Verdict::violated && verdict.where.empty() &&
                       whole.rate != nullptr && whole.is_fresh();
    if (!asked) continue;
    std::map<std::set<std::string>, std::set<const RateStream*>> routed;
    for (const Judged& slice : judged) {
      const bool counts = slice.verdict.clause == verdict.clause && !slice.verdict.where.empty() &&
                          slice.verdict.verdict == Verdict::violated && slice.rate != nullptr &&
                          slice.is_fresh() && ordered_to_route(slice.verdict);
      if (counts) routed[dimensions_of(slice.verdict.where)].insert(slice.rate);
    }
    for (const auto& [names, slices] : routed) {
      Rest rest;
      rest.take(whole.rate->counts(), 1);
      for (const RateStream* slice : slices) rest.take(slice->counts(), -1);
      whole.set_aside = whole.set_aside || (rest.is_part_of(whole.rate->counts()) && rest.clean(verdict));
    }
    if (!whole.set_aside) continue;
    whole.verdict.details["explained_by_slices"] = 1;
    whole.verdict.message +=
        " The slices that are routed away account for it: the rest shows no sign of harm, and is watched "
        "afresh.";
  }
}

}  // namespace driftgate::stages
