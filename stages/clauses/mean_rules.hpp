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
/// - Approximate: Gaffke's bound at any number of clusters where `range` is known and clusters count once;
///   elsewhere cluster bootstrap-t. Where the exact method is possible, details.exact_lower and
///   details.exact_upper are its limits, and it takes the place of the bootstrap with fewer than 50 clusters,
///   and for events that fewer than 25 clusters have or lack.
[[nodiscard]] MeanTest test_mean(std::vector<ClusterSum> clusters, const MeanQuestion& question,
                                 const MeanRules& rules, double alpha, std::uint64_t seed);

/// The range of values that are capped at `clip`, of which `least` is the smallest possible one; `range`
/// itself without a clip. std::nullopt where an end is not known.
[[nodiscard]] std::optional<std::pair<double, double>> clipped_range(
    std::optional<std::pair<double, double>> range, double least, std::optional<double> clip);

/// What would prove a mean that the exact method left open.
struct MeanAdvice {
  bool approximate = false;  ///< the approximate method proves it from these clusters
  /// About how many clusters like these the exact method takes; absent: more than were tried.
  std::optional<std::uint64_t> clusters;
  std::optional<double> clip;  ///< a clip with which these clusters would have proven it
};
/// The advice for such a mean; std::nullopt if neither the approximate method nor a clip would prove it.
/// `proves_low`: the limit is a largest value. The number of clusters is found by betting on these clusters
/// repeated, and is therefore a guide and not a promise.
[[nodiscard]] std::optional<MeanAdvice> advise_mean(std::vector<ClusterSum> clusters,
                                                    const MeanQuestion& question, const MeanRules& rules,
                                                    bool proves_low, double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
