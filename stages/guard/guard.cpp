#include "stages/guard/guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/verdict_rule.hpp"
#include "stages/canary/canary_streams.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/guard/guard_impl.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

/// Failures cluster in time from this value of the dispersion process on: a mean of so many groups of 16 s or
/// more before it says so wrongly.
constexpr double kDependent = 1e6;
/// After failures were seen to cluster, single failures count again after a day without it.
constexpr std::int64_t kDependentUs = 86'400'000'000;
/// An alarm has cleared below this part of what raised it.
constexpr double kClears = 0.01;

std::string promoted_text(const WatchPlan& plan) {
  if (plan.is_latency()) {
    std::vector<std::string> limits;
    for (const auto& [stratum, threshold] : plan.thresholds_ms) limits.push_back(figure(threshold));
    return fmt::format("{} of the answers may take longer than {} ms", percent(plan.limit),
                       fmt::join(limits, ", "));
  }
  return fmt::format("at most {} may fail; in the canary {} of {} did, of {} keys, so that at most {} do",
                     percent(plan.limit), count_text(plan.promoted_failed), count_text(plan.promoted_periods),
                     count_text(plan.promoted_keys), percent(plan.promoted_upper));
}

}  // namespace

GuardState::GuardState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GuardState::GuardState(GuardState&&) noexcept = default;
GuardState& GuardState::operator=(GuardState&&) noexcept = default;
GuardState::~GuardState() = default;

schema::Result<GuardState> GuardState::create(const schema::Contract& contract, const Promoted& promoted,
                                              const GuardSettings& settings) {
  if (!contract.guard) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        "the contract " + contract.name + " has no guard: add guard: {}");
  }
  auto plans = TRY(plan_guard(contract, promoted));
  auto impl = std::make_unique<Impl>();
  impl->contract_digest = contract.digest;
  impl->escalation = contract.escalation;
  impl->prompt_bounds = contract.slices.prompt_length_bounds;
  std::ranges::sort(impl->prompt_bounds);
  impl->mean_time_us = 1'000 * contract.guard->mean_time_between_false_alarms_ms;
  impl->block_us = promoted.block_us;
  impl->armed_us = impl->newest_us = settings.armed_us;
  impl->max_keys = settings.max_keys;
  impl->keys = KeyPeriods(settings.max_keys);
  impl->keys.begin(settings.armed_us, promoted.keys);
  impl->probe_share = plans.probe_share;
  impl->rescoring_share = plans.rescoring_share;
  for (WatchPlan& plan : plans.watches) impl->add_watch(std::move(plan));
  return GuardState(std::move(impl));
}

void GuardState::restart(std::int64_t now_us) {
  Impl& s = *impl_;
  s.armed_us = s.newest_us = now_us;
  s.dispersion = {};
  s.dependent_until_us = 0;
  std::vector<Impl::Watch> before = std::move(s.watches);
  s.watches.clear();
  for (Impl::Watch& watch : before) s.add_watch(std::move(watch.plan));
}

void GuardState::Impl::add_watch(WatchPlan plan) {
  const Events events = plan.is_latency() ? Events::blocks : Events::single_and_blocks;
  RateWatch rate(plan.limit, events, mean_time_us, block_us, armed_us);
  watches.push_back({std::move(plan), std::move(rate), false});
}

void GuardState::observe(const CanaryObservation& observation) {
  impl_->observe(observation);
}

void GuardState::Impl::observe(const CanaryObservation& observation) {
  if (observation.pinned || observation.outcome == RequestOutcome::excluded) return;
  if (!observation.keyless && !keys.first(observation.key_hash, observation.routed_us)) return;
  ++seen;
  newest_us = std::max(newest_us, observation.routed_us);
  const bool failed = observation.outcome == RequestOutcome::failed;
  const bool single = observation.routed_us >= dependent_until_us;
  dispersion.observe(observation.routed_us, failed);
  const schema::SliceWhere slice = parse_slice(observation.slice);
  const auto edge = std::ranges::upper_bound(prompt_bounds, observation.prompt_chars);
  const auto stratum =
      std::min(static_cast<std::uint32_t>(edge - prompt_bounds.begin()), LatencyStream::kMaxStrata - 1);
  for (Watch& watch : watches) {
    if (!matches(slice, watch.plan.where)) continue;
    if (!watch.plan.is_latency()) {
      watch.rate.observe(failed, observation.routed_us, single);
      continue;
    }
    const auto threshold = watch.plan.thresholds_ms.find(stratum);
    const auto& subject = std::get<schema::MetricSubject>(watch.plan.clause.subject);
    const double value = latency_value(subject.metric, observation.latency);
    if (failed || threshold == watch.plan.thresholds_ms.end() || !std::isfinite(value)) continue;
    watch.rate.observe(value > threshold->second, observation.routed_us, false);
  }
}

GuardDecision GuardState::decide() {
  return impl_->decide();
}

GuardDecision GuardState::Impl::decide() {
  if (dispersion.e_value() >= kDependent) {
    dependent_until_us = newest_us + kDependentUs;
    dispersion = {};
    for (Watch& watch : watches) watch.rate.forget_single();
  }
  GuardDecision decision;
  decision.dependent = newest_us < dependent_until_us;
  for (const Watch& watch : watches) decision.verdicts.push_back(verdict(watch));
  schema::enforce_rules(decision.verdicts);
  for (std::size_t i = 0; i < watches.size(); ++i) {
    Watch& watch = watches[i];
    const ClauseVerdict& now = decision.verdicts[i];
    if (now.verdict == Verdict::violated && !watch.alarming) {
      watch.alarming = true;
      decision.alarms.push_back(now);
    } else if (watch.alarming && watch.rate.value() < kClears * watch.plan.needed()) {
      watch.alarming = false;
      decision.cleared.push_back(now);
    }
  }
  decision.escalation = escalate_in_guard(escalation, decision.alarms);
  return decision;
}

/// The members of a test of failure rates over blocks of time (VerdictRule::e_value), so that both verifiers
/// compute the value again from its parts.
ClauseVerdict GuardState::Impl::verdict(const Watch& watch) const {
  const WatchPlan& plan = watch.plan;
  const RateWatch& rate = watch.rate;
  ClauseVerdict verdict = begin_verdict(plan.clause, plan.where, plan.role, 0, 0);
  verdict.rule = schema::VerdictRule::e_value;
  verdict.limit_kind = "max";
  verdict.threshold = plan.limit;
  verdict.method = plan.is_latency()
                       ? "e-detector over blocks of time, one answer of each key and hour"
                       : "e-detector over single failures and blocks of time, one request of each "
                         "key and hour";
  verdict.n = verdict.clusters = rate.seen();
  if (rate.seen() > 0)
    verdict.estimate = static_cast<double>(rate.events()) / static_cast<double>(rate.seen());
  const EDetector::Change change = rate.change();
  verdict.e_value = rate.value();
  verdict.details = {{"e_harm_needed", plan.needed()},
                     {"e_label", rate.single_value()},
                     {"label_part", rate.single_part()},
                     {"e_blocks", rate.block_value()},
                     {"blocks_part", rate.block_part()},
                     {"block_s", static_cast<double>(block_us) * 1e-6},
                     {"blocks", static_cast<double>(rate.blocks())},
                     {"mean_time_days", static_cast<double>(mean_time_us) / 86'400e6},
                     {"share_of_false_alarms", plan.share},
                     {"events", static_cast<double>(rate.events())},
                     {"change_since_us", static_cast<double>(change.since_us)},
                     {"change_mean", change.mean},
                     {"promoted_keys", static_cast<double>(plan.promoted_keys)},
                     {"promoted_periods", static_cast<double>(plan.promoted_periods)},
                     {"promoted_failed", static_cast<double>(plan.promoted_failed)}};
  const std::string start =
      fmt::format("{} of {} first requests of a key in its hour{} {} since the promotion ({}); {}",
                  count_text(rate.events()), count_text(rate.seen()), on_slice(plan.where),
                  plan.is_latency() ? "were slower" : "failed", percent(verdict.estimate.value_or(0)),
                  promoted_text(plan));
  if (*verdict.e_value >= plan.needed()) {
    verdict.verdict = Verdict::violated;
    verdict.message =
        fmt::format("{}. Since the change that the detector sees it is {}: {} of {} needed.", start,
                    percent(change.mean), figure(*verdict.e_value), figure(plan.needed()));
  } else {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = fmt::format("{}. No change is shown: {} of {} needed.", start, figure(*verdict.e_value),
                                  figure(plan.needed()));
  }
  return verdict;
}

std::int64_t GuardState::hour() const {
  return impl_->keys.newest_us() / kKeyPeriodUs;
}

std::string GuardState::take_new_keys() {
  return counted_keys_to_bytes(impl_->keys.take_new());
}

std::size_t GuardState::watches() const {
  return impl_->watches.size();
}

bool GuardState::alarming() const {
  return std::ranges::any_of(impl_->watches, &Impl::Watch::alarming);
}

double GuardState::probe_share() const {
  return impl_->probe_share;
}

double GuardState::rescoring_share() const {
  return impl_->rescoring_share;
}

std::uint64_t GuardState::seen() const {
  return impl_->seen;
}

}  // namespace driftgate::stages
