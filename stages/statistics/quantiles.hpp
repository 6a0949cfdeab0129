#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>

namespace driftgate::stages {

/// Limits of a quantile; infinite where the sample is too small to say.
struct QuantileLimits {
  double estimate = 0, lower = 0, upper = 0;
};

/// Order-statistic limits of the p-quantile of independent values, each one-sided at level 1 − alpha;
/// exact for any distribution, ties included (David & Nagaraja, Order Statistics, §7.1). Fixed data only.
[[nodiscard]] QuantileLimits order_statistic_limits(std::span<const double> sorted, double p, double alpha);

/// Positive values of one arm, kept as counts in bins of 1% relative width, with limits of a quantile that
/// hold at every time at once: the beta-binomial mixture boundary for counts of 1{x ≤ q} (Howard &
/// Ramdas, Bernoulli 2022). Two-sided at level 1 − alpha; limits are moved out to the edges of their bins.
/// See docs/design/statistics.md, "Latency".
class QuantileSequence {
 public:
  void add(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] QuantileLimits limits(double p, double alpha) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static QuantileSequence from_json(const nlohmann::json& json);

 private:
  [[nodiscard]] std::int32_t bin_of_rank(std::uint64_t rank) const;
  std::map<std::int32_t, std::uint64_t> bins_;
  std::uint64_t count_ = 0;
};

}  // namespace driftgate::stages
