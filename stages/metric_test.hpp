#pragma once

#include "gpu/measurement.hpp"
#include "schema/contract.hpp"
#include "schema/error.hpp"
#include "stages/selection.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// What a metric clause's aggregate is compared with.
struct MetricLimit {
  double value = 0;
  bool is_max = true;
};

/// The MeanTest of a metric's mean, sequence mean or derived figure on the selected sequences, against
/// `limit.value`; for a quantile aggregate, of the fraction of rows beyond the limit. Errors
/// (`unsupported`, `invalid_argument`) say what the table lacks.
[[nodiscard]] schema::Result<MeanTest> test_metric(const gpu::MeasurementTable& table,
                                                   const Selection& selection,
                                                   const schema::MetricSubject& subject,
                                                   const MetricLimit& limit, double alpha,
                                                   std::uint64_t seed);

/// The tolerated fraction of rows beyond the limit: 1 − Q for `max`, Q for `min`.
[[nodiscard]] double tolerated_fraction(schema::Aggregate quantile, bool is_max);

/// Effective-sample share (Σw)²/(N Σw²) or the correlation of the two kernels' probabilities, by
/// percentile bootstrap over clusters: seeded, approximate.
[[nodiscard]] MeanTest test_derived(const gpu::MeasurementTable& table, const Selection& selection,
                                    schema::Metric metric, double tau, double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
