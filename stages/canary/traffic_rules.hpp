#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// The metric of a clause on traffic, or nothing for bounds and outcomes.
[[nodiscard]] std::optional<schema::Metric> traffic_metric(const schema::Clause& clause);
[[nodiscard]] bool is_latency(schema::Metric metric);
/// The value of that latency metric; NaN where the answer has none.
[[nodiscard]] double latency_value(schema::Metric metric, const Latencies& latencies);
/// As written, else proof; latency and every max_ratio on a rate: no_harm (docs/design/contract.md, "A
/// clause").
[[nodiscard]] schema::Requirement requirement(const schema::Clause& clause);

/// The clause once for each of `max` and `max_ratio`, each of which must hold by itself; as it is when it
/// states neither.
[[nodiscard]] std::vector<schema::Clause> one_per_limit(const schema::Clause& clause);

/// What the candidate's limit is held against: the clause's max_ratio × or max_delta + the incumbent's limit,
/// or its max.
[[nodiscard]] double latency_threshold(const schema::Limits& limits, double incumbent);

/// Limits of both arms beside a latency clause.
struct LatencyEvidence {
  QuantileLimits candidate, incumbent;
  bool candidate_known = false, incumbent_known = false;
};
/// Violated when the candidate's lower limit is over the limit (max_ratio × the incumbent's upper one, or
/// max_delta over it), proven when its upper limit is at or under it (the same with the incumbent's lower
/// one). A clause that asks for no_harm passes unless violated, and says so. The clause states one limit.
void apply_latency(const LatencyEvidence& evidence, const schema::Clause& clause,
                   schema::ClauseVerdict& verdict);

/// "shadow_pairs", "logprobs" and "telemetry" as counted; absent where nothing counts them.
struct SignalFigures {
  std::optional<std::uint64_t> pairs;
  std::optional<std::uint64_t> with_logprobs, logprobs_wanted;
  std::int64_t telemetry_age_ms = 0;
};
/// Decides an O clause; nothing when this stage has no such figure.
[[nodiscard]] std::optional<schema::ClauseVerdict> decide_signal(const schema::Clause& clause,
                                                                 const SignalFigures& figures, double alpha);

}  // namespace driftgate::stages
