#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// The geometric mean of positive values of one arm, with limits that hold at all times simultaneously: the
/// asymptotic confidence sequence of the mean of logarithms (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas,
/// Ann. Statist. 2024), at a distance of σ̂·√(2(tρ² + 1)/(t²ρ²)·ln(1 + √(tρ² + 1)/(2α))) from the estimate.
/// Assumes independent values whose logarithms have a finite variance. Approximate, and without limits before
/// `kLeastLook` values: when monitored from the first value on, the limits were wrong in 51–70% of simulated
/// runs at a nominal 5% (docs/statistics.md). See also docs/design/statistics.md, "Latency".
class LogMeanSequence {
 public:
  static constexpr std::uint64_t kLeastLook = 500;

  void add(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The geometric mean and its limits in the unit of the values, each one-sided at level 1 − alpha; 0 and ∞
  /// before kLeastLook values. `planned` is the number of values at which the limits are tightest.
  /// `inflation`: as in QuantileSequence.
  [[nodiscard]] QuantileLimits limits(double alpha, std::uint64_t planned, double inflation = 1) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static LogMeanSequence from_json(const nlohmann::json& json);

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  ///< of the logarithms, by Welford's recurrence
};

/// The number of values from which on log_mean_limits gives limits.
inline constexpr std::uint64_t kLeastForLogMean = 50;

/// The geometric mean of independent positive values of fixed data, with limits by Student's t on the
/// logarithms, each one-sided at level 1 − alpha; 0 and ∞ below kLeastForLogMean values. Approximate: the
/// logarithms of latencies have little skew, so that their mean is nearly normal from some tens of values on.
[[nodiscard]] QuantileLimits log_mean_limits(std::span<const double> values, double alpha);

}  // namespace driftgate::stages
