#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace driftgate::stages {

/// The contribution of one cluster to a mean: the number of its units (rows, or 1 where a sequence counts
/// once) and the sum of their values.
struct ClusterSum {
  double n = 0;
  double sum = 0;
};

/// The test of a mean against a threshold τ in both directions (docs/design/statistics.md, "Means"). The mean
/// is proven to be at most τ if `p_low ≤ α`, and over τ if `p_high ≤ α`.
struct MeanTest {
  std::uint64_t n = 0, clusters = 0;
  double estimate = std::numeric_limits<double>::quiet_NaN();
  /// One-sided limits, each at level 1 − α; they agree with the p-values.
  std::optional<double> lower, upper;
  double p_low = 1;   ///< p-value of "mean ≥ τ": small if the mean is proven to be below
  double p_high = 1;  ///< p-value of "mean ≤ τ": small if the mean is proven to be above
  std::string method;
  bool approximate = false;
  std::string undecidable;  ///< why this method cannot decide, else empty; then there are no limits
  std::map<std::string, double> details;
};

/// What is known of every cluster before the data: its values are in [low, high] and it has at most `most`
/// units, so that its sum is in [low·n, high·n] with n ≤ most. A largest number of units that was observed
/// instead of known invalidates every guarantee: if the drift is in long clusters, those that were not drawn
/// matter most.
struct ValueRange {
  double low = 0, high = 1;
  double most = 1;
};

/// With fewer clusters that have an event, resampling cannot tell how rare events are.
inline constexpr std::size_t kLeastActiveClusters = 25;
/// The least number of clusters for resampling.
inline constexpr std::size_t kLeastResampledClusters = 50;

/// Replaces the units and the sum of each cluster by one unit with the cluster's mean, so that each cluster
/// counts once.
void count_once(std::vector<ClusterSum>& clusters);

/// The ratio Σ sum/Σ n; NaN without units.
[[nodiscard]] double ratio_mean(std::span<const ClusterSum> clusters);
/// The cluster-robust variance of the ratio mean, V = G/(G − 1)·Σ_g(sum_g − x̄·n_g)²/n² with G clusters;
/// infinite with fewer than two.
[[nodiscard]] double cluster_variance(std::span<const ClusterSum> clusters, double mean);

/// Tests the ratio mean of values in [low, high] by betting on x_g = (sum_g − τ·n_g)/most, with clusters in a
/// seeded random order and bets chosen from a grid by past wealth alone, at most `cap` of the stake that
/// could ruin (Waudby-Smith & Ramdas, JRSS-B 2024). Exact: the probability of a false proof is at most α for
/// any distribution whose clusters respect `range`. Undecidable without units, and if a cluster has more than
/// `range.most`. details.least_clusters is the number of clusters with which a proof is possible at all
/// (betting_units_without_event).
[[nodiscard]] MeanTest betting_mean(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                                    double alpha, std::uint64_t seed, double cap = 0.99);

/// The p-value alone of the same bets, of the hypothesis "the mean is at most tau" if `above`, else of "the
/// mean is at least tau". 1 if the clusters do not respect `range`.
[[nodiscard]] double betting_p_value(std::span<const ClusterSum> clusters, double tau,
                                     const ValueRange& range, bool above, std::uint64_t seed,
                                     double cap = 0.99);

/// The final capital of the same bets against the same hypotheses. It is an e-value: its mean under the
/// hypothesis is at most 1 for any distribution.
[[nodiscard]] double betting_e_value(std::span<const ClusterSum> clusters, double tau,
                                     const ValueRange& range, bool above, std::uint64_t seed,
                                     double cap = 0.99);

/// Tests the ratio mean by the cluster bootstrap-t (Hall, Ann. Statist. 1988). Seeded and approximate.
/// Undecidable with fewer than 50 clusters, if one cluster makes more than 10% of the sum of absolute values,
/// and at a level that the resampling cannot resolve. It cannot account for bad clusters that were not drawn;
/// docs/statistics.md has its error rates.
[[nodiscard]] MeanTest bootstrap_t(std::span<const ClusterSum> clusters, double tau, double alpha,
                                   std::uint64_t seed);

/// Tests the mean of values in [range.low, range.high] by Gaffke's bound (N. Gaffke, "Three test statistics
/// for a nonparametric one-sided hypothesis on the mean of a nonnegative variable", Math. Methods Statist.
/// 2005). Each cluster counts once by its mean, so that range.most plays no part. For "at most τ" one value
/// at the high end of the range is added, for "over τ" one at the low end; the p-value is the probability
/// that the mean of all of them under weights from a flat Dirichlet distribution lies on the wrong side of τ.
/// It is computed by quadrature, to a relative error of about 10^−9, and never below the truth where that
/// does not converge: nothing is drawn, and there is no seed. It is a p-value at a fixed number of clusters
/// and no e-value. Approximate: that its false proofs stay under α is a conjecture, proven only where all
/// values lie at the two ends (it is Clopper and Pearson's limit there); docs/statistics.md has what
/// simulation found. Undecidable without units and with a mean that is not a number. details.least_clusters
/// is the number of clusters with which "at most τ" can be proven at all.
[[nodiscard]] MeanTest gaffke_mean(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                                   double alpha);

/// The p-value alone of the same bound, of the hypothesis "the mean is at most tau" if `above`, else of "the
/// mean is at least tau". 1 where gaffke_mean is undecidable.
[[nodiscard]] double gaffke_p_value(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                                    bool above);

/// Tests the share of rows beyond a limit against `max_fraction`: `n` is a cluster's number of rows and `sum`
/// the number beyond. Exact binomial if every cluster has one row; else betting with cap 0.99 on the
/// clusters' shares, each counting once.
[[nodiscard]] MeanTest exceedance(std::span<const ClusterSum> clusters, double max_fraction, double alpha,
                                  std::uint64_t seed);

/// The number of clusters, none with a row beyond the limit, that proves a share of at most `max_fraction` by
/// betting: ⌈ln(1/α)/ln(1 + cap·max/(1 − max))⌉. The largest std::uint64_t for max ≤ 0.
[[nodiscard]] std::uint64_t betting_units_without_event(double max_fraction, double alpha, double cap = 0.99);

}  // namespace driftgate::stages
