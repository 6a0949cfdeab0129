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

/// What a contract says of how one clause's mean or quantile is decided (docs/design/statistics.md, "Means").
struct MeanRules {
  schema::Means means = schema::Means::exact;
  std::optional<double> clip{};  ///< each sequence's mean counts as at most this
  bool over_sequences = false;   ///< a quantile of sequences' means, not of rows
  std::uint32_t max_tokens = 0;  ///< tokens of a sequence at most, as the contract says; 0 = not stated
};
[[nodiscard]] MeanRules mean_rules(const schema::Contract& contract, const schema::Clause& clause);

/// The mean that is held against a limit.
struct MeanQuestion {
  double tau = 0;
  std::optional<std::pair<double, double>> range{};  ///< of the values, where both ends are known beforehand
  bool once = true;                                  ///< each cluster counts once; else by its units
  bool counts_events = false;                        ///< the values are discrete, so none at all is no proof
};

/// Decides the mean over clusters. Exact: betting at every n, on values of a known range, clusters counting
/// once or by at most `rules.max_tokens` units; otherwise undecidable, with the reason. Approximate: cluster
/// bootstrap-t from 50 clusters on, with the exact limits beside it (details.exact_lower, exact_upper); below
/// 50, and for events of which fewer than 25 clusters have one, exact as well.
[[nodiscard]] MeanTest test_mean(std::vector<ClusterSum> clusters, const MeanQuestion& question,
                                 const MeanRules& rules, double alpha, std::uint64_t seed);

/// The range of values that are capped at `clip`; as it was without a clip. Nothing where an end stays
/// unknown.
[[nodiscard]] std::optional<std::pair<double, double>> clipped_range(
    std::optional<std::pair<double, double>> range, double least, std::optional<double> clip);

/// What would prove a mean that the exact method leaves open, where the approximate one would pass.
struct MeanAdvice {
  std::optional<std::uint64_t> clusters;  ///< of clusters like these, which exact betting would take
  std::optional<double> clip;             ///< which would have proven it with these
};
/// Nothing where the approximate method would not pass either, or cannot say. `proves_low`: the limit is a
/// largest one. `clusters` are found by betting on these over and over, so that they are a guide and no
/// promise.
[[nodiscard]] std::optional<MeanAdvice> advise_mean(std::vector<ClusterSum> clusters,
                                                    const MeanQuestion& question, const MeanRules& rules,
                                                    bool proves_low, double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
