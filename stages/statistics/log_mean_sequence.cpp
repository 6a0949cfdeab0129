#include "stages/statistics/log_mean_sequence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {
namespace {
constexpr double kSmallest = 1e-3;  ///< below this, in the unit of the values, all are one value
}

void LogMeanSequence::add(double value) {
  if (!std::isfinite(value)) return;
  const double x = std::log(std::max(value, kSmallest));
  ++count_;
  const double before = x - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (x - mean_);
}

QuantileLimits LogMeanSequence::limits(double alpha, std::uint64_t planned, double inflation) const {
  QuantileLimits limits{std::numeric_limits<double>::quiet_NaN(), 0, std::numeric_limits<double>::infinity()};
  if (count_ == 0) return limits;
  limits.estimate = std::exp(mean_);
  if (count_ < kLeastLook) return limits;
  const double t = static_cast<double>(count_) / inflation;
  const double level = 2 * std::log(1 / alpha);
  const double rho2 = (level + std::log1p(level)) / static_cast<double>(std::max(planned, kLeastLook));
  const double deviation = std::sqrt(squares_ / static_cast<double>(count_));
  const double spread = t * rho2 + 1;
  const double reach =
      deviation * std::sqrt(2 * spread / (t * t * rho2) * std::log1p(std::sqrt(spread) / (2 * alpha)));
  limits.lower = std::exp(mean_ - reach);
  limits.upper = std::exp(mean_ + reach);
  return limits;
}

nlohmann::json LogMeanSequence::to_json() const {
  return {count_, mean_, squares_};
}

LogMeanSequence LogMeanSequence::from_json(const nlohmann::json& json) {
  LogMeanSequence sequence;
  json.at(0).get_to(sequence.count_);
  json.at(1).get_to(sequence.mean_);
  json.at(2).get_to(sequence.squares_);
  return sequence;
}

QuantileLimits log_mean_limits(std::span<const double> values, double alpha) {
  QuantileLimits limits{std::numeric_limits<double>::quiet_NaN(), 0, std::numeric_limits<double>::infinity()};
  std::vector<ClusterSum> logarithms;
  for (const double value : values) {
    if (std::isfinite(value)) logarithms.push_back({1, std::log(std::max(value, kSmallest))});
  }
  if (logarithms.empty()) return limits;
  const double mean = ratio_mean(logarithms);
  limits.estimate = std::exp(mean);
  if (logarithms.size() < kLeastForLogMean) return limits;
  const auto degrees = static_cast<double>(logarithms.size() - 1);
  const double reach = student_quantile(1 - alpha, degrees) * std::sqrt(cluster_variance(logarithms, mean));
  limits.lower = std::exp(mean - reach);
  limits.upper = std::exp(mean + reach);
  return limits;
}

}  // namespace driftgate::stages
