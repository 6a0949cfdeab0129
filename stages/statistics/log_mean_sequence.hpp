#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// The geometric mean of positive values of one arm, with limits that hold at every look at once: the
/// asymptotic confidence sequence of the mean of logarithms (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas,
/// Ann. Statist. 2024), width σ̂√(2(tρ²+1)/(t²ρ²)·ln(1 + √(tρ²+1)/(2α))). Assumes independent values with a
/// finite variance of the logarithm; approximate, and therefore silent before `kLeastLook` values [looks
/// from the first on were wrong 51–70% of the time at a nominal 5%]. See docs/design/statistics.md,
/// "Latency".
class LogMeanSequence {
 public:
  static constexpr std::uint64_t kLeastLook = 500;

  void add(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// In the unit of the values: the geometric mean and its limits, each one-sided at level 1 − alpha;
  /// 0 and ∞ before kLeastLook values. `planned` is the n at which the limits are tightest.
  [[nodiscard]] QuantileLimits limits(double alpha, std::uint64_t planned) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static LogMeanSequence from_json(const nlohmann::json& json);

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  ///< of the logarithms, by Welford's recurrence
};

/// Least values for limits of a geometric mean of fixed data.
inline constexpr std::uint64_t kLeastForLogMean = 50;

/// Fixed data: the geometric mean of independent positive values and its limits by Student's t on the
/// logarithms, each one-sided at level 1 − alpha; 0 and ∞ below kLeastForLogMean values. Approximate:
/// logarithms of latencies are skewed little, and their mean is near normal from some tens of values on.
[[nodiscard]] QuantileLimits log_mean_limits(std::span<const double> values, double alpha);

}  // namespace driftgate::stages
