#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "stages/canary/canary.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

namespace driftgate::stages {

namespace make {
/// The demo's canary: errors at most 5%, α_harm 0.01, steps of 10%, 50% (approval) and 100%.
inline schema::Contract canary_contract() {
  auto result = contract();
  result.clauses = {traffic("errors", schema::MetricSubject{schema::Metric::error_rate, {}}, max(0.05),
                            schema::Stage::canary)};
  return result;
}

/// The same with a single clause, on the latency of the first token.
inline schema::Contract latency_contract(schema::Aggregate aggregate, const schema::Limits& limits) {
  auto result = canary_contract();
  result.clauses = {traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, aggregate}, limits,
                            schema::Stage::canary)};
  return result;
}
}  // namespace make

/// An incumbent that served 20 requests a second for so long, of which `rate` failed one by one, and all of
/// them in the `stall_s` before its last minute.
inline FailureHistory history_of(double seconds, double rate = 0.01, double stall_s = 0) {
  FailureHistory history;
  Random random(99);
  const auto begin_us = 9'990'000'000 - static_cast<std::int64_t>(1e6 * seconds);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(20 * seconds); ++i) {
    const double before_end_s = seconds - 0.05 * static_cast<double>(i) - 60;
    const bool stalled = before_end_s > 0 && before_end_s <= stall_s;
    history.observe(random.next(), false, stalled || random.uniform() < rate, begin_us + 50'000 * i);
  }
  return history;
}

/// A service with 60 requests a second of distinct keys, seen by one canary; one decision a second.
struct CanaryWorld {
  CanaryWorld(const schema::Contract& the_contract, std::uint64_t seed, const FailureHistory& incumbent = {})
      : contract(the_contract),
        state(*CanaryState::create(contract, {1, seed, kDefaultMaxKeys, incumbent})),
        random(seed) {
    state.begin_step(0);
  }

  schema::Contract contract;
  CanaryState state;
  Random random;
  std::uint32_t step = 0;
  std::int64_t now_ms = 10'000'000, step_started_ms = 10'000'000;
  bool paused = false, approved = false;
  double true_share = -1;  ///< of keys that go to the candidate; negative = as configured
  double incumbent_fails = 0;
  double candidate_slower = 1;
  std::vector<std::string> slices = {""};     ///< of the requests, in turn
  std::map<std::string, double> slice_fails;  ///< the candidate's, where not that of the rest
  CanaryDecision last;                        ///< its routing is in force
  std::uint64_t requests = 0, windows = 0;
  int seconds = 0;
  int per_second = 60;

  [[nodiscard]] CanaryContext context() const { return {now_ms, step, step_started_ms, 0, paused, approved}; }

  [[nodiscard]] bool on_fallback(const std::string& slice) const {
    const auto attributes = parse_slice(slice);
    return last.all_to_fallback || std::ranges::any_of(last.fallback_slices, [&](const auto& where) {
             return matches(attributes, where);
           });
  }

  void observe(double candidate_fails) {
    CanaryObservation request;
    request.slice = slices[requests++ % slices.size()];
    const bool away = on_fallback(request.slice);
    request.candidate_bp = away ? 0 : state.share_of_step(step);
    request.key_hash = random.next();
    const double share = true_share < 0 ? request.candidate_bp / 10'000.0 : true_share;
    request.candidate = random.uniform() < share && !away;
    const auto own = slice_fails.find(request.slice);
    const double candidate_rate = own == slice_fails.end() ? candidate_fails : own->second;
    const double fails = request.candidate ? candidate_rate : incumbent_fails;
    request.outcome = random.uniform() < fails ? RequestOutcome::failed : RequestOutcome::ok;
    request.routed_us = now_ms * 1'000;
    request.latency.ttft_ms = (request.candidate ? candidate_slower : 1) * (20 + 10 * random.uniform());
    state.observe(request);
  }

  CanaryDecision second(double candidate_fails) {
    (void)state.begin_window("router", ++windows);
    for (int i = 0; i < per_second; ++i) observe(candidate_fails);
    now_ms += 1'000;
    ++seconds;
    last = state.decide(context());
    return last;
  }

  void follow(const CanaryDecision& decision) {
    if (decision.action != CanaryAction::advance && decision.action != CanaryAction::step_back) return;
    step = decision.next_step;
    step_started_ms = now_ms;
    approved = false;
    state.begin_step(step);
  }
};

}  // namespace driftgate::stages
