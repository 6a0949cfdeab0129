#pragma once

#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// Says of a clause with `clip` and `max` what the cap leaves out: how many sequences lie above it, the upper
/// Clopper–Pearson limit of their share (1 − α^{1/n} when none was seen; of clusters with such a sequence
/// where sequences share clusters), and the mean if that share were at the metric's maximum. details: clip,
/// above_clip, above_clip_upper, mean_with_share_at_maximum. Where the figures are bounds, by the upper ones.
/// Nothing for other clauses.
void note_clip(const gpu::MeasurementTable& table, const Selection& selection,
               const schema::MetricSubject& subject, const MetricLimit& limit, const MeanRules& rules,
               schema::ClauseVerdict& verdict);

/// Says of each clipped clause that passed what it certifies together with the quantile clause beside it
/// (schema::quantile_beside), where that passed too: a mean of at most limit + (1 − Q)·(maximum − clip), in
/// details.certified_mean; and otherwise that nothing is certified beyond the clip.
void note_certified_means(const schema::Contract& contract, std::vector<schema::ClauseVerdict>& verdicts);

}  // namespace driftgate::stages
