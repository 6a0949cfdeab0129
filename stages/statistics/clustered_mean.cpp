#include <algorithm>
#include <cmath>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

double ratio_mean(std::span<const ClusterSum> clusters) {
  double n = 0;
  double sum = 0;
  for (const ClusterSum& c : clusters) {
    n += c.n;
    sum += c.sum;
  }
  return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
}

double cluster_variance(std::span<const ClusterSum> clusters, double mean) {
  double n = 0;
  double squares = 0;
  for (const ClusterSum& c : clusters) {
    const double residual = c.sum - mean * c.n;
    n += c.n;
    squares += residual * residual;
  }
  const auto groups = static_cast<double>(clusters.size());
  if (groups < 2 || n <= 0) return std::numeric_limits<double>::infinity();
  return groups / (groups - 1) * squares / (n * n);
}

MeanTest clustered_t(std::span<const ClusterSum> clusters, double tau, double alpha) {
  MeanTest test;
  test.method = "clustered t";
  test.clusters = clusters.size();
  for (const ClusterSum& c : clusters) test.n += static_cast<std::uint64_t>(c.n);
  test.estimate = ratio_mean(clusters);
  if (clusters.size() < 2) {
    test.undecidable = "one cluster says nothing of the variation between clusters";
    return test;
  }
  const double error = std::sqrt(cluster_variance(clusters, test.estimate));
  const auto degrees = static_cast<double>(clusters.size() - 1);
  const double reach = student_quantile(1 - alpha, degrees) * error;
  test.lower = test.estimate - reach;
  test.upper = test.estimate + reach;
  test.details["standard_error"] = error;
  if (error <= 0) {
    test.p_low = test.estimate <= tau ? 0 : 1;
    test.p_high = test.estimate > tau ? 0 : 1;
    return test;
  }
  const double below = student_cdf((test.estimate - tau) / error, degrees);
  test.p_low = below;
  test.p_high = 1 - below;
  return test;
}

MeanTest bounded_mean(std::span<const ClusterSum> clusters, double tau, double low, double high, double alpha,
                      std::uint64_t seed, bool counts_events) {
  std::size_t above_low = 0;
  std::size_t below_high = 0;
  for (const ClusterSum& c : clusters) {
    above_low += static_cast<std::size_t>(c.sum > low * c.n);
    below_high += static_cast<std::size_t>(c.sum < high * c.n);
  }
  const std::size_t active = std::min(above_low, below_high);
  // A continuous value that never leaves its end of the range is two identical kernels, not rare events.
  const bool identical = active == 0 && !counts_events;
  const bool few = clusters.size() < kBettingBelowClusters || (active < kLeastActiveClusters && !identical);
  return few ? betting_mean(clusters, tau, low, high, alpha, seed) : clustered_t(clusters, tau, alpha);
}

}  // namespace driftgate::stages
