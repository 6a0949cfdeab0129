#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "schema/contract/contract.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

/// What `explain` takes live traffic for, since no contract says it.
namespace driftgate::stages {

/// The failure rate of the incumbent, and the standard deviation of the logarithm of a latency.
inline constexpr double kAssumedFailureRate = 0.01, kAssumedLatencyScatter = 0.6;
inline constexpr const char* kNoIncumbentLatency =
    "it depends on how long the incumbent takes, which no contract states";

/// A latency whose quantile, or without one whose geometric mean, is 1.
[[nodiscard]] inline double simulated_latency(std::optional<double> quantile, Random& random) {
  const double z = normal_quantile(std::max(random.uniform(), 0x1.0p-53));
  return std::exp(kAssumedLatencyScatter * (z - (quantile ? normal_quantile(*quantile) : 0)));
}

/// "p95", or "geometric mean".
[[nodiscard]] inline std::string latency_figure(const schema::Clause& clause) {
  const auto& aggregate = std::get<schema::MetricSubject>(clause.subject).aggregate;
  const bool quantile = aggregate && schema::quantile_of(*aggregate);
  return quantile ? std::string(schema::to_string(*aggregate)) : "geometric mean";
}

[[nodiscard]] inline std::string assumed_failure_rate() {
  return fmt::format("an incumbent that fails {} of requests", percent(kAssumedFailureRate));
}
[[nodiscard]] inline std::string assumed_latencies() {
  return fmt::format("latencies whose logarithm has a standard deviation of {}", kAssumedLatencyScatter);
}

}  // namespace driftgate::stages
