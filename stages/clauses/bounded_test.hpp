#pragma once

#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// What a clause on a metric asks.
struct MetricQuestion {
  const schema::Clause& clause;
  const schema::MetricSubject& subject;
  MetricLimit limit;
  MeanRules rules;
};

/// Decides a clause on a metric of which the table has bounds (docs/design/measurement.md, "Bounds"): it
/// passes only when the bound that is worse for it passes, is violated only when the better one is, and is
/// inconclusive otherwise, with the reason.
[[nodiscard]] schema::ClauseVerdict decide_bounded(const ClauseData& data, const MetricQuestion& question,
                                                   const Selection& selection, schema::ClauseVerdict verdict);

/// What the sequences add to the bound that harm is decided on. Errors as `bounded_figures`.
[[nodiscard]] schema::Result<BoundedFigures> harm_figures(const gpu::MeasurementTable& table,
                                                          const schema::MetricSubject& subject,
                                                          const MetricLimit& limit, const MeanRules& rules);

/// The text of the first finding about the captures under which no figure of theirs means anything, or empty.
[[nodiscard]] std::string deciding_finding(const gpu::MeasurementTable& table);

}  // namespace driftgate::stages
