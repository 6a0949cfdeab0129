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

/// The clause's `max` or `min`; nothing when it states another kind of limit.
[[nodiscard]] std::optional<MetricLimit> metric_limit(const schema::Clause& clause);

/// Threshold rule: pass when proven within the limit, violated when proven beyond, else inconclusive.
/// Fills in the figures and the message.
void apply_mean_test(const MeanTest& test, const schema::Clause& clause, const schema::MetricSubject& subject,
                     const MetricLimit& limit, schema::ClauseVerdict& verdict);

/// Says of an inconclusive verdict that the approximate method would pass, and what would prove it: details
/// needed_clusters, clip_that_would_do.
void apply_advice(const MeanAdvice& advice, schema::ClauseVerdict& verdict);

/// Zero-event rule for sum, min, max and nonfinite: decided on the rows as measured; passing takes at
/// least `least_units` independent sequences (clusters of the corpus), and the bound 1 − α^{1/n} is reported.
void apply_census(const gpu::MeasurementTable& table, const Selection& selection,
                  const schema::MetricSubject& subject, const MetricLimit& limit, std::uint64_t least_units,
                  schema::ClauseVerdict& verdict);

/// Non-inferiority: pass when δ > −margin is proven, violated when δ < −margin is; harm within the margin
/// is named.
void apply_paired(const MeanTest& test, double margin, schema::ClauseVerdict& verdict);

/// A clause that asks for no more than no_harm passes unless it is violated: turns a verdict that a test left
/// inconclusive into a pass and says so. Too few data for any test stay inconclusive.
void allow_no_harm(const schema::Clause& clause, schema::ClauseVerdict& verdict);

/// Bound rule: pass when the link's upper limit is within `max`, else inconclusive, never violated.
void apply_bound(const BoundLink* link, const schema::Clause& clause, schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
