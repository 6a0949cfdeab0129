#pragma once

#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// A clause on a metric with its subject, its limit, and the rules for its mean or quantile.
struct MetricQuestion {
  const schema::Clause& clause;
  const schema::MetricSubject& subject;
  MetricLimit limit;
  MeanRules rules;
};

/// Decides a clause on a metric of which the table has bounds in place of values (docs/design/measurement.md,
/// "Bounds"). It passes only if the bound that is less favourable to the clause is shown to be within the
/// limit, is violated only if the more favourable bound is shown to be beyond it, and is otherwise
/// inconclusive; the message tells how precisely the figure is known. `verdict` comes with clause, slice,
/// threshold and limit_kind filled in.
[[nodiscard]] schema::ClauseVerdict decide_bounded(const ClauseData& data, const MetricQuestion& question,
                                                   const Selection& selection, schema::ClauseVerdict verdict);

/// As bounded_figures, for such a metric: the figures are the bounds on which harm is decided, and prove
/// nothing (`harm_only`).
[[nodiscard]] schema::Result<BoundedFigures> harm_figures(const gpu::MeasurementTable& table,
                                                          const schema::MetricSubject& subject,
                                                          const MetricLimit& limit, const MeanRules& rules);

/// The name and text of the first finding about the captures that makes their figures meaningless
/// (docs/design/measurement.md, "Checks of captures"); empty without one.
[[nodiscard]] std::string deciding_finding(const gpu::MeasurementTable& table);

}  // namespace driftgate::stages
