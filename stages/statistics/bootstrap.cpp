#include <algorithm>
#include <cmath>

#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

constexpr double kLargestShare = 0.1;
constexpr std::size_t kReplicates = 1'999;
constexpr std::size_t kLeastReplicates = 499;
constexpr std::size_t kDrawLimit = 40'000'000;  ///< draws in all, which bounds the time of a large corpus

/// An error of nothing but rounding counts as none: a resample of equal values says nothing of spread.
double standard_error(std::span<const ClusterSum> clusters, double mean) {
  constexpr double kRounding = 1e-12;
  const double error = std::sqrt(cluster_variance(clusters, mean));
  return error <= kRounding * std::abs(mean) ? 0 : error;
}

double studentised(double difference, double error) {
  if (error > 0) return difference / error;
  if (difference == 0) return 0;
  return difference > 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

/// Sorted replicates of (x̄* − x̄)/se*.
std::vector<double> replicate_ts(std::span<const ClusterSum> clusters, double mean, std::uint64_t seed) {
  const std::size_t count = std::clamp(kDrawLimit / clusters.size(), kLeastReplicates, kReplicates);
  Random random(seed);
  std::vector<ClusterSum> drawn(clusters.size());
  std::vector<double> ts(count);
  for (double& t : ts) {
    for (ClusterSum& c : drawn) c = clusters[random.below(clusters.size())];
    const double drawn_mean = ratio_mean(drawn);
    t = studentised(drawn_mean - mean, standard_error(drawn, drawn_mean));
  }
  std::ranges::sort(ts);
  return ts;
}

std::string why_undecidable(std::span<const ClusterSum> clusters) {
  if (clusters.size() < kLeastResampledClusters) {
    return "resampling needs at least 50 independent sequences and there are " + std::to_string(clusters.size());
  }
  double total = 0;
  double largest = 0;
  for (const ClusterSum& c : clusters) {
    total += std::abs(c.sum);
    largest = std::max(largest, std::abs(c.sum));
  }
  if (largest > kLargestShare * total) return "one sequence alone makes over 10% of the sum";
  return {};
}

}  // namespace

MeanTest bootstrap_t(std::span<const ClusterSum> clusters, double tau, double alpha, std::uint64_t seed) {
  MeanTest test;
  test.method = "cluster bootstrap-t";
  test.approximate = true;
  test.clusters = clusters.size();
  for (const ClusterSum& c : clusters) test.n += static_cast<std::uint64_t>(c.n);
  test.estimate = ratio_mean(clusters);
  test.undecidable = why_undecidable(clusters);
  if (!test.undecidable.empty()) return test;
  const double error = standard_error(clusters, test.estimate);
  const std::vector<double> ts = replicate_ts(clusters, test.estimate, seed);
  const auto replicates = static_cast<double>(ts.size());
  // The k-th smallest of B replicates stands for the quantile k/(B + 1): the level is kept, not exceeded.
  const auto k = static_cast<std::size_t>(std::floor(alpha * (replicates + 1)));
  if (k == 0) {
    test.undecidable = "the level asked for is finer than the resampling can resolve";
    return test;
  }
  const auto reach = [error](double t) { return error > 0 ? t * error : 0.0; };
  test.upper = test.estimate - reach(ts[k - 1]);
  test.lower = test.estimate - reach(ts[ts.size() - k]);
  const double observed = studentised(test.estimate - tau, error);
  const auto at_most = static_cast<double>(std::ranges::upper_bound(ts, observed) - ts.begin());
  const auto at_least = static_cast<double>(ts.end() - std::ranges::lower_bound(ts, observed));
  test.p_low = (1 + at_most) / (replicates + 1);
  test.p_high = (1 + at_least) / (replicates + 1);
  if (error <= 0) {
    test.p_low = test.estimate <= tau ? 1 / (replicates + 1) : 1;
    test.p_high = test.estimate > tau ? 1 / (replicates + 1) : 1;
  }
  test.details["replicates"] = replicates;
  test.details["standard_error"] = error;
  return test;
}

}  // namespace driftgate::stages
