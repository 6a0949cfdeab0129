#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>

namespace driftgate::stages {

/// An estimate with its confidence limits. Where the sample is too small, the limits are the ends of the
/// possible values.
struct QuantileLimits {
  double estimate = 0, lower = 0, upper = 0;
};

/// The p-quantile of independent values with limits by order statistics, each one-sided at level 1 − alpha,
/// ±∞ where the sample is too small. Exact for any distribution, ties included (David & Nagaraja, Order
/// Statistics, section 7.1). For fixed data only. Precondition: `sorted` is sorted.
[[nodiscard]] QuantileLimits order_statistic_limits(std::span<const double> sorted, double p, double alpha);

/// Positive values of one arm, kept as counts in bins of 1% relative width, with limits of a quantile that
/// hold at all times simultaneously: the beta-binomial mixture boundary for the counts of 1{x ≤ q} (Howard &
/// Ramdas, Bernoulli 2022). The interval has level 1 − alpha, two-sided; limits are rounded outwards to the
/// edges of their bins, and are 0 and ∞ where the sample is too small. See docs/design/statistics.md,
/// "Latency".
class QuantileSequence {
 public:
  /// Values that are not finite are ignored.
  void add(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// `inflation`, at least 1: how many times as large the variance of a share of the values is as that of
  /// independent ones. The limits are those of so many fewer values, and are asymptotic then.
  [[nodiscard]] QuantileLimits limits(double p, double alpha, double inflation = 1) const;
  /// The bin of a finite value, and the bin in which the p-quantile lies.
  [[nodiscard]] static std::int32_t bin_of(double value);
  [[nodiscard]] std::int32_t bin_of_quantile(double p) const;
  /// That bin, and the part of its values that are above the quantile, so that 1 − p of all values are above.
  struct Place {
    std::int32_t bin = 0;
    double above = 0;
  };
  [[nodiscard]] Place place_of_quantile(double p) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static QuantileSequence from_json(const nlohmann::json& json);

 private:
  [[nodiscard]] std::int32_t bin_of_rank(std::uint64_t rank) const;
  std::map<std::int32_t, std::uint64_t> bins_;
  std::uint64_t count_ = 0;
};

}  // namespace driftgate::stages
