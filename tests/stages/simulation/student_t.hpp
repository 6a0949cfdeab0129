#pragma once

#include <cmath>
#include <span>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// p-values of Student's t on clusters, which many would take for a mean over sequences. driftgate does not:
/// it stands here to be compared with.
struct StudentT {
  double p_low = 1, p_high = 1;
};

inline StudentT student_t(std::span<const ClusterSum> clusters, double tau) {
  const double mean = ratio_mean(clusters);
  const double error = std::sqrt(cluster_variance(clusters, mean));
  if (!(error > 0)) return {mean <= tau ? 0.0 : 1.0, mean > tau ? 0.0 : 1.0};
  const double below = student_cdf((mean - tau) / error, static_cast<double>(clusters.size() - 1));
  return {below, 1 - below};
}

}  // namespace driftgate::stages
