#pragma once

#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// Adds to the verdict of a clause with `clip` and `max` what the clip leaves out: the number of sequences
/// above it (details.above_clip), the upper Clopper–Pearson limit of their share (details.above_clip_upper; 1
/// − α^{1/n} if there is none), and the mean if that share of sequences were at the metric's largest value
/// (details.mean_with_share_at_maximum). The limit is that of the share of clusters with such a sequence,
/// where sequences share clusters. Where only bounds of a metric are known, the upper bounds are used. Other
/// verdicts are left as they are.
void note_clip(const gpu::MeasurementTable& table, const Selection& selection,
               const schema::MetricSubject& subject, const MetricLimit& limit, const MeanRules& rules,
               schema::ClauseVerdict& verdict);

/// Adds to each clipped clause that passed what it certifies together with the quantile clause beside it
/// (schema::quantile_beside): if that passed too, a mean of at most limit + (1 − Q)·(maximum − clip)
/// (details.certified_mean); else that nothing is certified about sequences above the clip.
void note_certified_means(const schema::Contract& contract, std::vector<schema::ClauseVerdict>& verdicts);

}  // namespace driftgate::stages
