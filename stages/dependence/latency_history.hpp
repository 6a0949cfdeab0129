#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "schema/metrics.hpp"
#include "stages/dependence/wander.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// How the latencies of one arm wander: of each latency metric the share of answers above its quantiles so
/// far, and the mean of its logarithm (docs/design/statistics.md, "Latency"). Times are the router's times of
/// routing. The record covers the present day of observed time and the day before.
class LatencyHistory {
 public:
  /// The quantiles whose shares are followed. Another one takes the next smaller of them, whose share varies
  /// more.
  static constexpr std::array kQuantiles{0.5, 0.9, 0.95, 0.99};
  /// Values from which on quantiles are known well enough.
  static constexpr std::uint64_t kLeastValues = 400;
  /// An excess counts above so many standard deviations of its estimate.
  static constexpr double kAllowance = 3;

  /// Adds a good answer of an arm that has the share `share` of all requests. Answers come in routing order;
  /// values that are not finite are left out.
  void observe(const Latencies& latencies, std::int64_t routed_us, double share);

  /// Of all answers together. `quantile`: absent for the mean.
  [[nodiscard]] Wander::Excess excess(schema::Metric metric, std::optional<double> quantile) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static LatencyHistory from_json(const nlohmann::json& json);

 private:
  struct One {
    QuantileSequence values;
    std::array<QuantileSequence::Place, kQuantiles.size()> places{};  ///< of the quantiles when `unit` began
    std::array<Wander, kQuantiles.size()> above;
    Wander mean;
    std::int64_t unit = 0;
    void observe(double value, std::int64_t routed_us, double share);
  };
  static constexpr std::size_t kMetrics = 3;

  std::array<One, kMetrics> metrics_;
  UnitClock clock_;
  std::int64_t observed_units_ = 0;  ///< of this day
};

}  // namespace driftgate::stages
