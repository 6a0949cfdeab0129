#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// The metric or signal of a clause; std::nullopt for clauses on bounds, outcomes and tensors.
[[nodiscard]] std::optional<schema::Metric> traffic_metric(const schema::Clause& clause);
/// Whether the metric is ttft_ms, inter_token_ms or total_ms.
[[nodiscard]] bool is_latency(schema::Metric metric);
/// The value of a latency metric in ms; NaN where the answer has none and for other metrics.
[[nodiscard]] double latency_value(schema::Metric metric, const Latencies& latencies);
/// `require` as stated, else no_harm for latencies and proof for everything else. Verdicts on a `max_ratio`
/// of failure rates do not depend on it: they only ever show harm (docs/design/contract.md, "A clause").
[[nodiscard]] schema::Requirement requirement(const schema::Clause& clause);

/// Splits a clause with both `max` and `max_ratio`, each of which must hold, into two clauses with one limit
/// each. Any other clause is returned as it is.
[[nodiscard]] std::vector<schema::Clause> one_per_limit(const schema::Clause& clause);

/// What the candidate's latency is compared with, given the incumbent's: max_delta + incumbent, max_ratio ×
/// incumbent, or `max`. In ms.
[[nodiscard]] double latency_threshold(const schema::Limits& limits, double incumbent);

/// Confidence limits of a latency in both arms, in ms, and whether each arm has any value.
struct LatencyEvidence {
  QuantileLimits candidate, incumbent;
  bool candidate_known = false, incumbent_known = false;
};
/// Decides a latency clause with one limit. Violated if the candidate's lower limit exceeds latency_threshold
/// of the incumbent's upper limit; passed with proof if the candidate's upper limit is at most
/// latency_threshold of the incumbent's lower limit; otherwise inconclusive, or passed with no_harm_only if
/// the clause asks for no_harm.
void apply_latency(const LatencyEvidence& evidence, const schema::Clause& clause,
                   schema::ClauseVerdict& verdict);

/// The figures of the observability signals. Those that a stage does not count are absent.
struct SignalFigures {
  std::optional<std::uint64_t> pairs;  ///< mirrored requests that both engines answered
  /// Requests that had log-probabilities, and that were asked for them.
  std::optional<std::uint64_t> with_logprobs, logprobs_wanted;
  std::string no_logprobs;            ///< why none was asked for them, or ""
  std::int64_t telemetry_age_ms = 0;  ///< age of the newest telemetry window
};
/// Decides a clause on an observability signal; std::nullopt where `figures` lacks its figure. Too few pairs
/// are inconclusive, too small a share with log-probabilities is violated, and telemetry that is too old is
/// an error.
[[nodiscard]] std::optional<schema::ClauseVerdict> decide_signal(const schema::Clause& clause,
                                                                 const SignalFigures& figures, double alpha);

}  // namespace driftgate::stages
