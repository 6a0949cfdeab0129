#pragma once

#include <cstdint>
#include <optional>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// The clause's `max` or `min`; std::nullopt if it states max_ratio, max_delta or floor_multiple, or neither
/// of the two.
[[nodiscard]] std::optional<MetricLimit> metric_limit(const schema::Clause& clause);

/// Whether details.share_of_rows, where it is, is at most `tolerated`. A share of the rows of an average
/// sequence does not pass otherwise (docs/design/statistics.md, "Quantiles").
[[nodiscard]] bool share_of_rows_within(double tolerated, const schema::ClauseVerdict& verdict);
/// The message of a verdict that does not pass for that reason; `what` is the share in words.
[[nodiscard]] std::string long_sequences_text(const std::string& what, double tolerated,
                                              const schema::ClauseVerdict& verdict);

/// Fills in the verdict of a mean or quantile: pass if `test` proves that the limit is kept, violated if it
/// proves that it is exceeded, else inconclusive; error without any value.
void apply_mean_test(const MeanTest& test, const schema::Clause& clause, const schema::MetricSubject& subject,
                     const MetricLimit& limit, schema::ClauseVerdict& verdict);

/// Adds to an inconclusive verdict whether the approximate method would pass, and what would prove the limit
/// exactly: details.needed_clusters, details.clip_that_would_do.
void apply_advice(const MeanAdvice& advice, schema::ClauseVerdict& verdict);

/// Fills in the verdict of a clause on a sum, a minimum, a maximum or `nonfinite` (docs/design/statistics.md,
/// "Census clauses"). It is decided on the measured rows: violated if their figure is beyond the limit, pass
/// if it is within the limit over at least `least_units` clusters of sequences, else inconclusive; error
/// without any value. details.rate_bound is 1 − α^{1/n}, the upper limit of the share of sequences that may
/// still be beyond it.
void apply_census(const gpu::MeasurementTable& table, const Selection& selection,
                  const schema::MetricSubject& subject, const MetricLimit& limit, std::uint64_t least_units,
                  schema::ClauseVerdict& verdict);

/// Fills in the verdict of a test of non-inferiority (docs/design/statistics.md, "Paired outcomes"): pass if
/// δ > −margin is proven, violated if δ < −margin is, else inconclusive. An upper limit below 0 without a
/// violation is noted as harm within the margin.
void apply_paired(const MeanTest& test, double margin, schema::ClauseVerdict& verdict);

/// Turns an inconclusive verdict of a test into a pass with no_harm_only if the clause has `require:
/// no_harm`. Verdicts without a test, for lack of data, stay inconclusive.
void allow_no_harm(const schema::Clause& clause, schema::ClauseVerdict& verdict);

/// Fills in the verdict of a clause on a bound: pass if the upper limit of `link` is at most `max`, else
/// inconclusive. A bound never shows a violation. `link` is null where no link serves the clause.
void apply_bound(const BoundLink* link, const schema::Clause& clause, schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
