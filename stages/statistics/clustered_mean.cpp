#include <limits>

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

void count_once(std::vector<ClusterSum>& clusters) {
  for (ClusterSum& c : clusters) {
    if (c.n > 0) c = {1, c.sum / c.n};
  }
}

}  // namespace driftgate::stages
