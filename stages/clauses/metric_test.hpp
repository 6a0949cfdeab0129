#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/clauses/mean_rules.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// What a metric clause's aggregate is compared with.
struct MetricLimit {
  double value = 0;
  bool is_max = true;
};

/// `ratio_mean` is judged only where ess_fraction is above this (docs/design/measurement.md, "Figures of
/// target tokens").
inline constexpr double kLeastEssFraction = 0.5;

/// The MeanTest of a metric's mean, sequence mean or derived figure on the selected sequences, against
/// `limit.value`; for a quantile aggregate, of the fraction of rows beyond the limit, or of sequences whose mean
/// is. Errors (`unsupported`, `invalid_argument`) say what the table lacks.
[[nodiscard]] schema::Result<MeanTest> test_metric(const gpu::MeasurementTable& table,
                                                   const Selection& selection,
                                                   const schema::MetricSubject& subject,
                                                   const MetricLimit& limit, const MeanRules& rules,
                                                   double alpha, std::uint64_t seed);

/// What would prove a mean that `test_metric` left open (mean_rules.hpp); nothing for other figures.
[[nodiscard]] std::optional<MeanAdvice> advise_metric(const gpu::MeasurementTable& table,
                                                      const Selection& selection,
                                                      const schema::MetricSubject& subject,
                                                      const MetricLimit& limit, const MeanRules& rules,
                                                      double alpha, std::uint64_t seed);

/// The mean of a metric over one sequence, or its figure of the whole sequence; nothing where the sequence has
/// none. Metrics that are known by bounds have none here.
[[nodiscard]] std::optional<double> sequence_value(schema::Metric metric, const gpu::SequenceRow& row);

/// Whether a value counts as beyond the limit of a quantile clause.
[[nodiscard]] inline bool beyond(double value, const MetricLimit& limit) {
  return limit.is_max ? value > limit.value : value < limit.value;
}

/// What each sequence adds to a figure that is a bounded mean, and the limit that it is held to.
struct BoundedFigures {
  std::vector<ClusterSum> parts;  ///< parallel to the table's sequences
  double low = 0, high = 1;       ///< the range of the values
  bool once = true;               ///< each cluster counts once; else by its units
  double most = 1;                ///< units of a cluster at most (1 where each counts once)
  double tau = 0;                 ///< the limit of their mean
  bool harm_above = true;         ///< a mean over tau is the harm; else one under it
  bool harm_only = false;         ///< the figures are the bounds that harm is decided on and prove nothing
};
/// The parts of a mean or of a quantile clause (the share of rows beyond its limit). Errors say what the
/// table lacks, or that the values have no finite range.
[[nodiscard]] schema::Result<BoundedFigures> bounded_figures(const gpu::MeasurementTable& table,
                                                             const schema::MetricSubject& subject,
                                                             const MetricLimit& limit,
                                                             const MeanRules& rules);

/// The tolerated fraction of rows beyond the limit: 1 − Q for `max`, Q for `min`.
[[nodiscard]] double tolerated_fraction(schema::Aggregate quantile, bool is_max);

/// The finite range of a metric's values, if it has one.
[[nodiscard]] std::optional<std::pair<double, double>> finite_range(const gpu::MeasurementTable& table,
                                                                    schema::Metric metric);
/// The index of the table's threshold that counts rows beyond the limit.
[[nodiscard]] schema::Result<std::size_t> threshold_column(const gpu::MeasurementTable& table,
                                                           const schema::MetricSubject& subject,
                                                           const MetricLimit& limit);

/// Effective-sample share (Σw)²/(N Σw²) or the correlation of the two kernels' probabilities, by
/// percentile bootstrap over clusters: seeded, approximate.
[[nodiscard]] MeanTest test_derived(const gpu::MeasurementTable& table, const Selection& selection,
                                    schema::Metric metric, double tau, double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
