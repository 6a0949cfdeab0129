#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/clauses/mean_rules.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// A `max` (is_max) or `min` and its value.
struct MetricLimit {
  double value = 0;
  bool is_max = true;
};

/// `ratio_mean` is tested only if ess_fraction is above this (docs/design/measurement.md, "Figures of target
/// tokens").
inline constexpr double kLeastEssFraction = 0.5;

/// Tests a metric over the selected sequences against `limit` at level alpha in each direction: its mean, its
/// mean over sequences, or its figure of all tokens (test_derived). For a quantile, the share of rows beyond
/// the limit, or of sequences whose mean is, is tested against tolerated_fraction. Errors: `unsupported` if
/// the captures cannot supply the metric, `invalid_argument` if the table lacks the count of rows beyond the
/// limit.
[[nodiscard]] schema::Result<MeanTest> test_metric(const gpu::MeasurementTable& table,
                                                   const Selection& selection,
                                                   const schema::MetricSubject& subject,
                                                   const MetricLimit& limit, const MeanRules& rules,
                                                   double alpha, std::uint64_t seed);

/// Tests the share beyond the limit of a quantile clause against `tolerated`, of the population that
/// `rules.over` names. `clusters`: rows and rows beyond, or 1 and whether the sequence's mean is beyond. Of
/// an average sequence details.share_of_rows is the share of all rows (docs/design/statistics.md,
/// "Quantiles").
[[nodiscard]] MeanTest test_share(std::span<const ClusterSum> clusters, double tolerated,
                                  const MeanRules& rules, double alpha, std::uint64_t seed);

/// advise_mean for a mean that `test_metric` left open; std::nullopt for other figures.
[[nodiscard]] std::optional<MeanAdvice> advise_metric(const gpu::MeasurementTable& table,
                                                      const Selection& selection,
                                                      const schema::MetricSubject& subject,
                                                      const MetricLimit& limit, const MeanRules& rules,
                                                      double alpha, std::uint64_t seed);

/// The mean of a metric over the rows or tokens of one sequence, or its figure for the sequence as a whole;
/// std::nullopt where the sequence has none, as for metrics of which only bounds are known.
[[nodiscard]] std::optional<double> sequence_value(schema::Metric metric, const gpu::SequenceRow& row);
/// The same for a subject with a band: the share of the sequence's tokens within it, or 1 if the sequence is.
[[nodiscard]] std::optional<double> sequence_value(const schema::MetricSubject& subject,
                                                   const gpu::SequenceRow& row);

/// Whether a value counts as beyond the limit of a quantile clause: over `max`, or under `min`.
[[nodiscard]] inline bool beyond(double value, const MetricLimit& limit) {
  return limit.is_max ? value > limit.value : value < limit.value;
}

/// The same for the mean sum/n of a sequence, whose sum was rounded at each of n additions: a mean that is at
/// the limit but for that is not beyond it.
[[nodiscard]] inline bool mean_beyond(double sum, double n, const MetricLimit& limit) {
  const double at = limit.value * n;
  const double rounding = n * std::numeric_limits<double>::epsilon() * std::abs(at);
  return limit.is_max ? sum > at + rounding : sum < at - rounding;
}

/// The values of a bounded mean by sequence, and the limit of the mean: what betting needs.
struct BoundedFigures {
  std::vector<ClusterSum> parts;  ///< one for each sequence of the table, in its order
  double low = 0, high = 1;       ///< range of the values
  bool once = true;               ///< each cluster counts once; false: in proportion to its units
  double most = 1;                ///< the most units of a cluster (1 if each counts once)
  double tau = 0;                 ///< limit of the mean
  bool harm_above = true;         ///< a mean over tau is harm; false: one under it
  bool harm_only = false;         ///< the values are bounds by which harm is shown, and prove nothing
};
/// The values that a clause on a mean, or on a quantile (the share of rows or sequences beyond its limit),
/// averages. Errors: those of test_metric, and `unsupported` if the values have no range that is known before
/// the data.
[[nodiscard]] schema::Result<BoundedFigures> bounded_figures(const gpu::MeasurementTable& table,
                                                             const schema::MetricSubject& subject,
                                                             const MetricLimit& limit,
                                                             const MeanRules& rules);

/// The share of rows that a quantile clause tolerates beyond its limit: 1 − Q for `max`, Q for `min`.
[[nodiscard]] double tolerated_fraction(schema::Aggregate quantile, bool is_max);

/// The range of a metric's values if both ends are finite; [0, ln V] for entropies, where V is the table's
/// vocabulary.
[[nodiscard]] std::optional<std::pair<double, double>> finite_range(const gpu::MeasurementTable& table,
                                                                    schema::Metric metric);
/// How the figures of a quantile clause are weighed: each cluster once, or by its rows, of which max_tokens
/// are the most. Error: `unsupported` without max_tokens.
[[nodiscard]] schema::Result<void> weigh_share(const MeanRules& rules, BoundedFigures& figures);

/// The index of the table's threshold that counts rows beyond the limit. Error: `invalid_argument` if it has
/// none.
[[nodiscard]] schema::Result<std::size_t> threshold_column(const gpu::MeasurementTable& table,
                                                           const schema::MetricSubject& subject,
                                                           const MetricLimit& limit);

/// Tests ess_fraction, (Σw)²/(N·Σw²), or prob_pearson, the correlation of the two kernels' probabilities, by
/// a percentile bootstrap over clusters. Approximate and seeded. Undecidable with fewer than 50 clusters, and
/// at a level that 1,999 resamples cannot resolve.
[[nodiscard]] MeanTest test_derived(const gpu::MeasurementTable& table, const Selection& selection,
                                    schema::Metric metric, double tau, double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
