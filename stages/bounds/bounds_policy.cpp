#include <algorithm>
#include <cmath>

#include "stages/bounds/bound_builder.hpp"
#include "stages/clauses/metric_test.hpp"

// docs/design/measurement.md, "Link 5: policy gradients" and "Link 6: clip budget".

namespace driftgate::stages {
namespace {

using schema::Bound;
using schema::Horizon;
using schema::Metric;

}  // namespace

AssumptionStatus BoundBuilder::advantage_status(BoundLink& link) const {
  gpu::Moments seen;
  for (const std::size_t i : selection) {
    if (i < table.infos.size() && table.infos[i].advantage) seen.add(std::abs(*table.infos[i].advantage));
  }
  link.inputs["advantages"] = static_cast<double>(seen.n);
  if (seen.n > 0) link.inputs["advantage_largest"] = seen.max;
  if (seen.n > 0 && seen.max > assumptions.policy->advantage_max) return AssumptionStatus::broken;
  return seen.n == selection.size() ? AssumptionStatus::checked : AssumptionStatus::unchecked;
}

void BoundBuilder::add_policy(const MeanTest& tv) {
  const AssumptionStatus support = add_support();
  if (!assumptions.policy) {
    add_missing(5, "policy_gradient", Bound::policy_gradient, Horizon::token, "assumptions.policy");
    return;
  }
  const auto& policy = *assumptions.policy;
  const double scale = policy.advantage_max * policy.score_norm_max;
  BoundLink& link = add_scaled(5, "policy_gradient", Bound::policy_gradient, tv, 2 * scale);
  link.inputs["advantage_max"] = policy.advantage_max;
  link.inputs["score_norm_max"] = policy.score_norm_max;
  const AssumptionStatus advantages = advantage_status(link);
  const std::string assumption =
      part("advantages within advantage_max", advantages) + "; score norm within score_norm_max; " +
      part("support of p inside that of q" + (lost_support.empty() ? "" : ", but " + lost_support), support) +
      "; prefixes as K_inf samples them";
  link.assumption = assumption;
  // The score norm can not be seen in captures, so what is known of the rest checks parts of it only.
  const auto any = [&](AssumptionStatus status) { return advantages == status || support == status; };
  link.status = any(AssumptionStatus::broken)       ? AssumptionStatus::broken
                : any(AssumptionStatus::suspicious) ? AssumptionStatus::suspicious
                                                    : AssumptionStatus::unchecked;
  const AssumptionStatus status = link.status;
  add_clipped(scale, assumption + "; importance ratios clipped at is_clip", status);
  if (assumptions.max_tokens == 0) return;
  add_sequence_scaled(5, "policy_gradient_sequence", Bound::policy_gradient,
                      2 * scale * assumptions.max_tokens, assumption, status);
}

void BoundBuilder::add_clipped(double scale, const std::string& assumption, AssumptionStatus status) {
  const auto& clip = assumptions.policy->is_clip;
  if (!clip) return;
  if (!(table.is_clip == clip && table.sampled_by_inf() && table.has_tokens)) {
    add_missing(5, "policy_gradient_clipped", std::nullopt, Horizon::token,
                "tokens that K_inf sampled without filters, measured with this is_clip");
    return;
  }
  const auto clusters = collect(table, selection, [](const gpu::SequenceRow& row) {
    return ClusterSum{static_cast<double>(row.target.n), row.target.excess_is_clip};
  });
  const MeanTest excess = resampled(clusters, alpha);
  BoundLink& clipped = add_mean(5, "policy_gradient_clipped", Bound::policy_gradient, Horizon::token, excess,
                                [scale](double mean) { return scale * std::max(0.0, mean); });
  clipped.inputs = {{"is_clip", *clip}, {"excess", excess.estimate}};
  // Resampling clusters of which hardly any has an excess says nothing of how large one may be.
  const bool few = std::ranges::count_if(clusters, [](const ClusterSum& c) { return c.sum > 0; }) <
                   static_cast<std::ptrdiff_t>(kLeastActiveClusters);
  if (few) clipped.upper.reset();
  if (few && excess.undecidable.empty() && !values_only)
    clipped.method = "too few ratios beyond the clip to bound their tail";
  clipped.approximate = true;
  clipped.assumption = assumption;
  clipped.status = status;
}

void BoundBuilder::add_clip_room() {
  if (!assumptions.policy) {
    add_missing(6, "clip_room", std::nullopt, Horizon::token, "assumptions.policy");
    return;
  }
  const double clip = assumptions.policy->ppo_clip;
  const double span = largest(Metric::logit_span);
  BoundLink& link = add_maximum(6, "clip_room", std::min(std::log1p(clip), -std::log1p(-clip)) - span);
  link.inputs = {{"ppo_clip", clip},
                 {"logit_span_max", span},
                 {"log_ratio_low", std::log1p(-clip) + span},
                 {"log_ratio_high", std::log1p(clip) - span}};
}

}  // namespace driftgate::stages
