#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schema/contract/contract.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// How the contract wants the mean or quantile of a clause decided (docs/design/statistics.md, "Means").
struct MeanRules {
  schema::Means means = schema::Means::exact;
  std::optional<double> clip{};  ///< each sequence's mean counts as at most this
  schema::QuantileOver over = schema::QuantileOver::average_sequence;  ///< of a quantile
  std::uint32_t max_tokens = 0;  ///< the longest possible sequence, in tokens; 0: not stated
};
[[nodiscard]] MeanRules mean_rules(const schema::Contract& contract, const schema::Clause& clause);

/// A mean and the limit that it is compared with.
struct MeanQuestion {
  double tau = 0;                                    ///< the limit
  std::optional<std::pair<double, double>> range{};  ///< [low, high] of the values, if known before the data
  bool once = true;            ///< each cluster counts once; false: in proportion to its units
  bool counts_events = false;  ///< a share of discrete events (schema::counts_events)
};

/// Tests the mean over clusters, at level alpha in each direction.
/// - Exact: betting at any number of clusters. Needs `range`, and `rules.max_tokens` as the most units of a
///   cluster unless clusters count once; without them the result is undecidable, with the reason.
/// - Approximate: cluster bootstrap-t, with the exact limits in details.exact_lower and details.exact_upper
///   where the exact method is possible. With fewer than 50 clusters, and for events that fewer than 25
///   clusters have or lack, the exact method takes its place where it is possible.
[[nodiscard]] MeanTest test_mean(std::vector<ClusterSum> clusters, const MeanQuestion& question,
                                 const MeanRules& rules, double alpha, std::uint64_t seed);

/// The range of values that are capped at `clip`, of which `least` is the smallest possible one; `range`
/// itself without a clip. std::nullopt where an end is not known.
[[nodiscard]] std::optional<std::pair<double, double>> clipped_range(
    std::optional<std::pair<double, double>> range, double least, std::optional<double> clip);

/// What would prove a mean by the exact method, where only the approximate one would pass.
struct MeanAdvice {
  /// About how many clusters like these; absent: more than were tried.
  std::optional<std::uint64_t> clusters;
  std::optional<double> clip;  ///< a clip with which these clusters would have proven it
};
/// The advice for a mean that the exact method left open; std::nullopt if the approximate method would not
/// pass either. `proves_low`: the limit is a largest value. The number of clusters is found by betting on
/// these clusters repeated, and is therefore a guide and not a promise.
[[nodiscard]] std::optional<MeanAdvice> advise_mean(std::vector<ClusterSum> clusters,
                                                    const MeanQuestion& question, const MeanRules& rules,
                                                    bool proves_low, double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
