#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/drift.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// Aggregates of one metric of rows. NaN where there is no figure. The means are NaN too when a row in scope
/// has no figure because its logits are not finite, so that such a row is not averaged away.
struct MetricSummary {
  std::uint64_t n = 0;
  double mean, sequence_mean;  ///< over tokens; over sequences of their means
  double min, max;
  double p50, p90, p95, p99, p99_9;  ///< within 1%, from the histogram
};

/// Aggregates of a metric whose figures are bounds. Upper bounds that do not exist are infinite; means are
/// NaN when a row in scope has no figure.
struct BoundSummary {
  Metric metric{};
  std::uint64_t n = 0;
  double mean_lower, mean_upper;
  double sequence_mean_lower, sequence_mean_upper;
  double min_lower, min_upper;  ///< bounds of the smallest figure
  double max_lower, max_upper;  ///< bounds of the largest figure
};

/// A metric of docs/design/measurement.md, "Figures of target tokens". One figure has the path "value";
/// several have paths such as "tokens.0_1pct".
struct DerivedSummary {
  Metric metric{};
  std::vector<std::pair<std::string, double>> figures;
  bool descriptive = false;  ///< marked †, but K_inf did not sample the tokens without filters
};

/// The corpus (`where` empty) or one slice.
struct Summary {
  SliceAttributes where;
  std::uint64_t rows = 0, sequences = 0, nonfinite_rows = 0;
  std::array<MetricSummary, kRowMetricCount> metrics;
  std::vector<BoundSummary> bounds;     ///< of a table of partial captures; those metrics have n = 0 above
  double tail_train, tail_inf;          ///< mean mass outside the tokens that both kernels reported, or NaN
  std::vector<DerivedSummary> derived;  ///< empty without target tokens
};

/// Figures over all sequences of the table that match `where`. Quantiles are NaN when the table holds no
/// histogram of that slice.
[[nodiscard]] Summary summarise(const MeasurementTable& table, const SliceAttributes& where = {});

/// Fills in `bounds` and the tails from the sequences in scope.
void summarise_bounds(const MeasurementTable& table, const std::vector<const SequenceRow*>& rows,
                      Summary& out);

}  // namespace driftgate::gpu
