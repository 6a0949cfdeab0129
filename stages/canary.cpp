#include "stages/canary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stages/canary_impl.hpp"
#include "stages/selection.hpp"
#include "stages/statistics/multiple.hpp"
#include "stages/statistics/random.hpp"
#include "stages/traffic_rules.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;
using schema::SliceRole;

constexpr std::uint32_t kFullBp = 10'000;

schema::Result<void> check_clause(const schema::Clause& clause) {
  const auto refuse = [&](const std::string& why) {
    return schema::fail(schema::ErrorCode::unsupported, clause.address() + ": " + why);
  };
  const auto metric = traffic_metric(clause);
  if (!metric || (*metric != Metric::error_rate && !is_latency(*metric))) {
    return refuse(subject_text(clause) +
                  " cannot be evaluated continuously in a canary: take canary out of its stages");
  }
  const bool limited = clause.limits.max || clause.limits.max_ratio;
  if (!limited) return refuse("a canary decides by max or max_ratio only");
  if (!is_latency(*metric)) return {};
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  if (!subject.aggregate || !schema::quantile_of(*subject.aggregate)) {
    return refuse("a canary decides latency by a quantile (p50, p90, p95, p99, p99_9), not by its mean");
  }
  return {};
}

/// The slices that a clause is watched on: all traffic unless it names critical ones.
std::vector<std::pair<schema::SliceWhere, SliceRole>> scopes(const schema::Contract& contract,
                                                             const schema::Clause& clause) {
  std::vector<std::pair<schema::SliceWhere, SliceRole>> result;
  if (std::ranges::find(clause.slices, SliceRole::critical) != clause.slices.end()) {
    for (const auto& where : contract.slices.critical) result.emplace_back(where, SliceRole::critical);
  }
  if (result.empty()) result.emplace_back(schema::SliceWhere{}, SliceRole::corpus);
  return result;
}

}  // namespace

CanaryState::CanaryState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CanaryState::CanaryState(CanaryState&&) noexcept = default;
CanaryState& CanaryState::operator=(CanaryState&&) noexcept = default;
CanaryState::~CanaryState() = default;

schema::Result<CanaryState> CanaryState::create(const schema::Contract& contract,
                                                const CanarySettings& settings) {
  if (!contract.canary || contract.canary->steps.empty()) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        "contract " + contract.name + " has no canary steps: add stages.canary.steps");
  }
  auto impl = std::make_unique<Impl>();
  impl->contract_digest = contract.digest;
  impl->plan = *contract.canary;
  impl->escalation = contract.escalation;
  impl->settings = settings;
  impl->prompt_bounds = contract.slices.prompt_length_bounds;
  std::ranges::sort(impl->prompt_bounds);
  const auto starts = static_cast<std::uint32_t>(impl->plan.steps.size()) + 1;
  const auto strata =
      std::min(LatencyStream::kMaxStrata, static_cast<std::uint32_t>(impl->prompt_bounds.size()) + 1);
  std::uint32_t tests = 0;
  for (const schema::Clause& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(schema::Stage::canary)) == 0) continue;
    if (std::holds_alternative<schema::SignalSubject>(clause.subject)) {
      impl->signals.push_back(clause);
      continue;
    }
    if (auto checked = check_clause(clause); !checked) return std::unexpected(checked.error());
    for (const auto& [where, role] : scopes(contract, clause)) {
      if (*traffic_metric(clause) == Metric::error_rate) {
        const StreamHead head{clause, where, role, std::nullopt, 0};
        tests += impl->rates.emplace_back(head, starts).tests();
        continue;
      }
      for (const schema::Clause& part : one_per_limit(clause)) {
        impl->latencies.emplace_back(StreamHead{part, where, role, std::nullopt, 0}, strata);
        ++tests;
      }
    }
  }
  impl->levels = {streaming_alpha(contract.confidence.alpha_harm, settings.attempt),
                  streaming_alpha(contract.confidence.alpha_advance, settings.attempt), std::max(1U, tests)};
  return CanaryState(std::move(impl));
}

void CanaryState::begin_step(std::uint32_t step) {
  impl_->started = std::max(impl_->started, step + 1);
  for (RateStream& stream : impl_->rates) stream.open(impl_->started);
  impl_->keys_in_step = 0;
}

bool CanaryState::begin_window(std::string_view router_id, std::uint64_t number) {
  auto& windows = impl_->windows;
  const auto found = std::ranges::find(windows, router_id, &std::pair<std::string, std::uint64_t>::first);
  if (found != windows.end()) {
    if (number <= found->second) return false;
    windows.erase(found);
  }
  if (windows.size() >= kMaxRouters) windows.erase(windows.begin());
  windows.emplace_back(router_id, number);
  return true;
}

void CanaryState::observe(const CanaryObservation& observation) {
  impl_->observe(observation);
}

CanaryDecision CanaryState::decide(const CanaryContext& context) {
  return impl_->decide(context);
}

std::uint32_t CanaryState::share_of_step(std::uint32_t step) const {
  return impl_->share_of(step);
}

std::uint32_t CanaryState::Impl::share_of(std::uint32_t step) const {
  const std::size_t index = std::min<std::size_t>(step, plan.steps.size() - 1);
  return std::min(plan.steps[index].share_bp, kFullBp - std::min(plan.holdback_bp, kFullBp));
}

std::uint8_t* CanaryState::Impl::key_bits(const CanaryObservation& observation, std::uint8_t& keyless) {
  if (observation.keyless) return &keyless;
  const auto found = keys.find(observation.key_hash);
  if (found != keys.end()) return &found->second;
  if (keys.size() >= settings.max_keys) return nullptr;
  return &keys[observation.key_hash];
}

void CanaryState::Impl::observe(const CanaryObservation& observation) {
  if (observation.pinned) return;
  const bool failed = observation.outcome == RequestOutcome::failed;
  if (observation.candidate) {
    ++exposed_requests;
    failed_requests_candidate += static_cast<std::uint64_t>(failed);
    if (failed && first_failure_us == 0) first_failure_us = observation.routed_us;
  } else {
    failed_requests_incumbent += static_cast<std::uint64_t>(failed);
  }
  std::uint8_t keyless = 0;
  std::uint8_t* bits = key_bits(observation, keyless);
  if (bits == nullptr) {
    ++uncounted_keys;
    return;
  }
  const auto first = [bits](KeyBit bit) {
    const bool fresh = (*bits & bit) == 0;
    *bits = static_cast<std::uint8_t>(*bits | bit);
    return fresh;
  };
  if (first(kKeySeen)) split.update(observation.candidate, observation.candidate_bp);
  if (observation.outcome == RequestOutcome::excluded) return;
  const schema::SliceWhere slice = parse_slice(observation.slice);
  if (observation.candidate && first(kKeyCandidate)) {
    ++exposed_keys;
    ++keys_in_step;
    failed_keys_candidate += static_cast<std::uint64_t>(failed);
    for (RateStream& stream : rates) {
      if (matches(slice, stream.head.where)) stream.observe_key(failed);
    }
  }
  if (failed && first(kKeyFailed)) {
    const double share = static_cast<double>(observation.candidate_bp) / kFullBp;
    for (RateStream& stream : rates) {
      if (matches(slice, stream.head.where)) stream.observe_failure(observation.candidate, share);
    }
  }
  if (!failed && !latencies.empty() && first(kKeyLatency)) observe_latency(observation, slice);
}

void CanaryState::Impl::observe_latency(const CanaryObservation& observation,
                                        const schema::SliceWhere& slice) {
  const auto edge = std::ranges::upper_bound(prompt_bounds, observation.prompt_chars);
  const auto stratum = static_cast<std::uint32_t>(edge - prompt_bounds.begin());
  const std::uint64_t hash = mix64(observation.key_hash ^ mix64(settings.seed));
  const double uniform = static_cast<double>(hash >> 11U) * 0x1.0p-53;
  for (LatencyStream& stream : latencies) {
    if (!matches(slice, stream.head.where)) continue;
    const auto& subject = std::get<schema::MetricSubject>(stream.head.clause.subject);
    stream.observe(observation.candidate, latency_value(subject.metric, observation.latency),
                   observation.candidate_bp, stratum, uniform);
  }
}

std::string_view to_string(CanaryAction action) {
  switch (action) {
    case CanaryAction::hold:
      return "hold";
    case CanaryAction::advance:
      return "advance";
    case CanaryAction::wait_approval:
      return "wait_approval";
    case CanaryAction::freeze:
      return "freeze";
    case CanaryAction::step_back:
      return "step_back";
    case CanaryAction::rollback:
      return "rollback";
    case CanaryAction::finish:
      return "finish";
    case CanaryAction::inconclusive:
      return "inconclusive";
    case CanaryAction::revert:
      return "revert";
    case CanaryAction::route_slice:
      return "route_slice";
    case CanaryAction::restore_slice:
      return "restore_slice";
    case CanaryAction::fallback:
      return "fallback";
    case CanaryAction::restore:
      return "restore";
    case CanaryAction::block:
      return "block";
  }
  return "unknown";
}

}  // namespace driftgate::stages
