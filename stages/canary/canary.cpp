#include "stages/canary/canary.hpp"

#include <algorithm>
#include <cmath>

#include "stages/canary/canary_impl.hpp"
#include "stages/canary/key_periods.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

bool first(std::uint8_t& bits, KeyBit bit) {
  const bool fresh = (bits & bit) == 0;
  bits = static_cast<std::uint8_t>(bits | bit);
  return fresh;
}

}  // namespace

std::int64_t block_ms(const schema::CanaryPlan& plan, const FailureHistory& incumbent) {
  if (plan.burst_ms) return *plan.burst_ms;
  constexpr double kOverStall = 3'000;  // ms of a block for each second of a stall
  return std::max(schema::kLeastBlockMs,
                  static_cast<std::int64_t>(std::ceil(kOverStall * incumbent.longest_stall_s())));
}

CanaryState::CanaryState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CanaryState::CanaryState(CanaryState&&) noexcept = default;
CanaryState& CanaryState::operator=(CanaryState&&) noexcept = default;
CanaryState::~CanaryState() = default;

schema::Result<CanaryState> CanaryState::create(const schema::Contract& contract,
                                                const CanarySettings& settings) {
  const schema::CanaryPlan plan = contract.canary.value_or(schema::CanaryPlan{});
  const std::int64_t block_us = 1'000 * block_ms(plan, settings.incumbent);
  const bool own = contract.assumptions.swings == schema::Swings::own;
  return make(contract, settings, block_us, own ? settings.incumbent.scores().inflation(block_us) : 0);
}

schema::Result<CanaryState> CanaryState::make(const schema::Contract& contract,
                                              const CanarySettings& settings, std::int64_t block_us,
                                              double score_inflation) {
  if (!contract.canary || contract.canary->steps.empty()) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        "contract " + contract.name + " has no canary steps: add stages.canary.steps");
  }
  auto scopes = TRY(canary_scopes(contract));
  auto impl = std::make_unique<Impl>();
  impl->contract_digest = contract.digest;
  impl->plan = *contract.canary;
  impl->escalation = contract.escalation;
  impl->settings = settings;
  impl->prompt_bounds = contract.slices.prompt_length_bounds;
  std::ranges::sort(impl->prompt_bounds);
  impl->strata = prompt_strata(contract);
  impl->levels = canary_levels(contract, scopes, settings.attempt, block_us);
  impl->levels.score_inflation = score_inflation;
  impl->incumbent = settings.incumbent;
  impl->incumbent_latency = settings.incumbent_latency;
  impl->swings = contract.assumptions.swings;
  impl->dependent = settings.incumbent.dependent();
  impl->ratio_plan.labels = !impl->dependent;
  impl->scopes = std::move(scopes);
  for (const CanaryScope& scope : impl->scopes.planned)
    impl->add_stream(scope.clause, scope.where, scope.role, scope.defers_to_slices);
  for (const schema::Clause& clause : impl->scopes.signals) {
    SignalStream signal;
    signal.watched.clause = clause;
    impl->signals.push_back(std::move(signal));
  }
  return CanaryState(std::move(impl));
}

/// The stream of a rate clause, or one stream for each limit of a latency clause.
void CanaryState::Impl::add_stream(const schema::Clause& clause, const schema::SliceWhere& where,
                                   schema::SliceRole role, bool defers_to_slices) {
  WatchedClause watched;
  watched.clause = clause;
  watched.where = where;
  watched.role = role;
  watched.defers_to_slices = defers_to_slices;
  if (*traffic_metric(clause) == schema::Metric::error_rate) {
    const auto starts = static_cast<std::uint32_t>(plan.steps.size()) + 1;
    rates.emplace_back(watched, levels, starts).open(started);
    return;
  }
  for (const schema::Clause& part : one_per_limit(clause)) {
    watched.clause = part;
    latencies.emplace_back(watched, levels, strata);
  }
}

/// Clauses that watch slices found in traffic begin to watch this one.
void CanaryState::Impl::watch(const schema::SliceWhere& where) {
  found.push_back(where);
  for (const schema::Clause& clause : scopes.found) {
    const bool planned = std::ranges::any_of(scopes.planned, [&](const CanaryScope& scope) {
      return scope.clause.address() == clause.address() && scope.where == where;
    });
    if (!planned) add_stream(clause, where, schema::SliceRole::monitored, false);
  }
}

/// Single values of declared dimensions; an absent value is no slice that could be routed.
void CanaryState::Impl::find_slices(const schema::SliceWhere& slice) {
  for (const std::string& dimension : scopes.dimensions) {
    const auto value = slice.find(dimension);
    if (value == slice.end()) continue;
    const schema::SliceWhere where{{dimension, value->second}};
    const bool known = std::ranges::find(found, where) != found.end() ||
                       std::ranges::find(scopes.critical, where) != scopes.critical.end();
    if (known) continue;
    if (found.size() < kMaxWatchedSlices) {
      watch(where);
    } else {
      found_full = true;
    }
  }
}

void CanaryState::begin_step(std::uint32_t step) {
  impl_->started = std::max(impl_->started, step + 1);
  for (RateStream& stream : impl_->rates) {
    stream.end_block();
    stream.open(impl_->started);
  }
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
  ++impl_->windows_read;
  return true;
}

void CanaryState::observe(const CanaryObservation& observation) {
  impl_->observe(observation);
}

CanaryDecision CanaryState::decide(const CanaryContext& context) {
  return impl_->decide(context);
}

std::uint32_t CanaryState::run() const {
  return impl_->settings.attempt;
}

std::uint32_t CanaryState::share_of_step(std::uint32_t step) const {
  return impl_->share_of(step);
}

std::uint32_t CanaryState::Impl::share_of(std::uint32_t step) const {
  return stages::share_of_step(plan, step);
}

CanaryState::Impl::Key* CanaryState::Impl::key_of(const CanaryObservation& observation, Key& keyless) {
  if (observation.keyless) return &keyless;
  const auto known = keys.find(observation.key_hash);
  if (known != keys.end()) return &known->second;
  if (keys.size() >= settings.max_keys) return nullptr;
  return &keys[observation.key_hash];
}

bool CanaryState::Impl::begins_period(const CanaryObservation& observation, std::int64_t length_us,
                                      std::uint16_t& last) {
  if (origin_us == 0) origin_us = observation.routed_us;
  const std::int64_t first_one = key_period(observation.key_hash, origin_us, length_us);
  const std::int64_t since =
      key_period(observation.key_hash, observation.routed_us, length_us) - first_one + 1;
  const auto period = static_cast<std::uint16_t>(std::clamp<std::int64_t>(since, 1, UINT16_MAX));
  const bool begins = observation.keyless || period > last;
  last = std::max(last, period);
  return begins;
}

void CanaryState::Impl::observe(const CanaryObservation& observation) {
  // Neither arm of this canary: the fallback kernel served it, or the candidate had no share yet.
  if (observation.pinned || (!observation.candidate && observation.candidate_bp == 0)) return;
  const bool failed = observation.outcome == RequestOutcome::failed;
  if (observation.candidate) {
    exposed_requests += static_cast<std::uint64_t>(!observation.withheld);
    failed_requests_candidate += static_cast<std::uint64_t>(failed);
    if (failed && first_failure_us == 0) first_failure_us = observation.routed_us;
  } else {
    failed_requests_incumbent += static_cast<std::uint64_t>(failed);
  }
  Key keyless;
  Key* const key = key_of(observation, keyless);
  if (key == nullptr) {
    ++uncounted_keys;
    return;
  }
  if (first(key->bits, kKeySeen)) split.update(observation.candidate, observation.candidate_bp);
  if (observation.outcome == RequestOutcome::excluded) return;
  const schema::SliceWhere slice = parse_slice(observation.slice);
  if (!scopes.found.empty()) find_slices(slice);
  observe_rates(observation, slice, *key);
  if (!failed && !latencies.empty()) observe_latency(observation, slice, *key);
}

void CanaryState::Impl::observe_rates(const CanaryObservation& observation, const schema::SliceWhere& slice,
                                      Key& key) {
  std::uint8_t& bits = key.bits;
  const bool failed = observation.outcome == RequestOutcome::failed;
  const double share = static_cast<double>(observation.candidate_bp) / kFullBp;
  (observation.candidate ? candidate : incumbent)
      .observe(observation.key_hash, observation.keyless, failed, observation.routed_us,
               observation.candidate ? share : 1 - share);
  dependent = dependent || incumbent.dependent() || candidate.dependent();
  const bool at_risk = (bits & kKeyFailed) == 0;
  const bool counted = first(bits, kKeyCounted);
  // The first request that the candidate was to serve, whether it was asked or not.
  const bool assigned = observation.candidate && (bits & (kKeyCandidate | kKeyWithheld)) == 0;
  const bool failure = failed && first(bits, kKeyFailed);
  if (observation.candidate && first(bits, observation.withheld ? kKeyWithheld : kKeyCandidate) &&
      !observation.withheld) {
    ++exposed_keys;
    ++keys_in_step;
  }
  failed_keys_candidate += static_cast<std::uint64_t>(assigned && failed);
  const bool begins_hour = observation.candidate && begins_period(observation, kKeyPeriodUs, key.hour);
  const bool swings_count = failure && swings == schema::Swings::own;
  const double excess = swings_count ? incumbent.wander().excess(kSwingsShown).excess : 0;
  for (RateStream& stream : rates) {
    if (!matches(slice, stream.watched.where)) continue;
    if (counted) stream.observe_first(observation.candidate, failed, share);
    if (assigned) stream.observe_key(failed);
    if (failure) stream.observe_failure(observation.candidate, share, excess);
    if (begins_hour) stream.observe_period(observation.key_hash, observation.keyless, failed);
    if (at_risk) stream.observe_at_risk(observation.candidate, failed, share, observation.routed_us);
  }
}

void CanaryState::Impl::observe_latency(const CanaryObservation& observation, const schema::SliceWhere& slice,
                                        Key& key) {
  for (LatencyStream& stream : latencies) stream.count_answer(observation.candidate_bp);
  const double share = static_cast<double>(observation.candidate_bp) / kFullBp;
  if (!observation.candidate)
    incumbent_latency.observe(observation.latency, observation.routed_us, 1 - share);
  std::uint16_t& last = key.latency[observation.candidate ? 1 : 0];
  if (!begins_period(observation, kLatencyPeriodUs, last)) return;
  const auto edge = std::ranges::upper_bound(prompt_bounds, observation.prompt_chars);
  const auto stratum = static_cast<std::uint32_t>(edge - prompt_bounds.begin());
  const std::uint64_t hash = mix64(observation.key_hash ^ mix64(settings.seed + last));
  LatencyAnswer answer{.key = observation.key_hash,
                       .keyless = observation.keyless,
                       .candidate = observation.candidate,
                       .share_bp = observation.candidate_bp,
                       .stratum = stratum,
                       .uniform = static_cast<double>(hash >> 11U) * 0x1.0p-53};
  for (LatencyStream& stream : latencies) {
    if (!matches(slice, stream.watched.where)) continue;
    const auto& subject = std::get<schema::MetricSubject>(stream.watched.clause.subject);
    answer.value = latency_value(subject.metric, observation.latency);
    stream.observe(answer);
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
