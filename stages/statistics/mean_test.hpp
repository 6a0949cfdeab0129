#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace driftgate::stages {

/// One cluster's share of a mean: n units (rows, or 1 for a mean over sequences) and their sum.
struct ClusterSum {
  double n = 0;
  double sum = 0;
};

/// What a sample says of a mean beside a threshold τ. The four verdicts follow from it: the mean is
/// proven at or under τ when `p_low ≤ α`, over τ when `p_high ≤ α`. See docs/design/statistics.md, "Means".
struct MeanTest {
  std::uint64_t n = 0, clusters = 0;
  double estimate = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> lower, upper;  ///< one-sided, each at level 1 − α; consistent with the p-values
  double p_low = 1;                    ///< p-value of "mean ≥ τ": small when the mean is proven below
  double p_high = 1;                   ///< p-value of "mean ≤ τ": small when the mean is proven above
  std::string method;
  bool approximate = false;
  std::string undecidable;  ///< why this method cannot decide, or empty; then no limits and p-values 1
  std::map<std::string, double> details;
};

/// What is known of every cluster before the data: its values lie in [low, high] and it has at most `most` units,
/// so that its sum lies in [low·n, high·n] with n ≤ most. A `most` that was seen instead of known voids every
/// guarantee: where long clusters hold the drift, those that were not drawn are the ones that count.
struct ValueRange {
  double low = 0, high = 1;
  double most = 1;
};

/// Fewer clusters than this with an event say nothing of how rare events are to a resampling.
inline constexpr std::size_t kLeastActiveClusters = 25;
/// Clusters that a resampling asks for.
inline constexpr std::size_t kLeastResampledClusters = 50;

/// Gives each cluster the same say: its mean in place of its sum.
void count_once(std::vector<ClusterSum>& clusters);

/// The ratio Σ sum / Σ n.
[[nodiscard]] double ratio_mean(std::span<const ClusterSum> clusters);
/// V = G/(G−1)·Σ_g(sum_g − x̄ n_g)² / n², the cluster-robust variance of the ratio mean.
[[nodiscard]] double cluster_variance(std::span<const ClusterSum> clusters, double mean);

/// Betting on x_g = (sum_g − τ n_g)/most for values in [low, high], clusters in seeded random order,
/// bets chosen from a grid by past wealth alone, capped at `cap` of the stake that ruins (Waudby-Smith &
/// Ramdas, JRSS-B 2024). Exact: the probability of a false proof is at most α for any distribution whose clusters
/// keep to `range`. Undecidable when one was seen that has more units than `range.most`.
[[nodiscard]] MeanTest betting_mean(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                                    double alpha, std::uint64_t seed, double cap = 0.99);

/// The p-value alone of the same bets: of "the mean is at most tau" (`above`, small when it is proven above) or of
/// "at least tau". 1 where the clusters are not what `range` says.
[[nodiscard]] double betting_p_value(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                                     bool above, std::uint64_t seed, double cap = 0.99);

/// The capital of the same bets at their end, against "the mean is at most tau" (`above`) or "at least tau":
/// an e-value, whose mean under that hypothesis is at most 1 for any distribution.
[[nodiscard]] double betting_e_value(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                                     bool above, std::uint64_t seed, double cap = 0.99);

/// Cluster bootstrap-t (Hall 1988): seeded, approximate; undecidable with fewer than 50 clusters or when one
/// cluster holds over 10% of the sum of absolute values. It cannot see bad clusters that were not drawn:
/// docs/statistics.md has its error rates.
[[nodiscard]] MeanTest bootstrap_t(std::span<const ClusterSum> clusters, double tau, double alpha,
                                   std::uint64_t seed);

/// "Fraction of rows beyond a limit" against `max_fraction`, each cluster counting once by its share of rows
/// beyond; `sum` counts them. Exact binomial when every cluster is one row, else betting with cap 0.99.
[[nodiscard]] MeanTest exceedance(std::span<const ClusterSum> clusters, double max_fraction, double alpha,
                                  std::uint64_t seed);

/// Clusters that prove a fraction at or under `max_fraction` by betting when none is beyond:
/// ⌈ln(1/α)/ln(1 + cap·max/(1 − max))⌉.
[[nodiscard]] std::uint64_t betting_units_without_event(double max_fraction, double alpha, double cap = 0.99);

}  // namespace driftgate::stages
