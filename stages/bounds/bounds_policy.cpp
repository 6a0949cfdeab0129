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

/// Below the smallest normal float32 engines and trainers see a probability as nothing or nearly.
constexpr double kUnderflow = 0x1p-126;
/// Mass of p where q underflows that says nothing against the support assumption.
constexpr double kNoMass = 1e-6;

/// No row has more of p's mass on tokens with q < u: there p < u·e^s, for at most V tokens; and p ≤ q +
/// (p − q)⁺, whose sum is tv.
double underflow_mass(double vocabulary, double span_max, double tv_max) {
  const double few = vocabulary * kUnderflow;
  return std::min({1.0, few * std::exp(span_max), few + tv_max});
}

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

AssumptionStatus BoundBuilder::add_support() {
  BoundLink& link = add(5, "support", std::nullopt, Horizon::token);
  const double span = largest(Metric::logit_span);
  link.value = underflow_mass(table.vocabulary, span, std::min(1.0, largest(Metric::tv)));
  link.inputs["p_mass_underflow_max"] = *link.value;
  link.inputs["q_underflow"] = kUnderflow;
  link.inputs["logit_span_max"] = span;
  link.method = "largest mass of p on tokens where q underflows float32, bounded by V*u*e^s and by tv";
  link.assumption = "every token that K_train can take K_inf can take (supp p inside supp q)";
  if (!table.has_tokens) return link.status;
  double least_log_q = 0;
  for (const std::size_t i : selection)
    least_log_q = std::min(least_log_q, table.sequences[i].target.min_log_q);
  link.inputs["least_log_q"] = least_log_q;
  link.inputs["smallest_q_a"] = std::exp(least_log_q);
  if (!table.sampled_by_inf() || values_only) return link.status;
  const MeanRules resampling{.means = schema::Means::approximate};
  const auto ratio = test_metric(table, selection, {Metric::ratio_mean, {}}, {1, true}, resampling, alpha, seed);
  const auto ess = test_metric(table, selection, {Metric::ess_fraction, {}}, {kLeastEssFraction, false},
                               resampling, alpha, seed);
  if (!ratio || !ess) return link.status;
  link.inputs["ratio_mean"] = ratio->estimate;
  link.inputs["ess_fraction"] = ess->estimate;
  if (ratio->lower) link.inputs["ratio_mean_lower"] = *ratio->lower;
  if (ratio->upper) link.inputs["ratio_mean_upper"] = *ratio->upper;
  link.clusters = ratio->clusters;
  link.method += "; ratio_mean by " + (ratio->undecidable.empty() ? ratio->method : ratio->undecidable);
  link.approximate = true;
  if (!(ess->estimate > kLeastEssFraction) || !ratio->upper) return link.status;
  // A mean ratio below 1 is mass of p where q has none: the support assumption fails.
  if (*ratio->upper < 1) return link.status = AssumptionStatus::broken;
  if (*link.value <= kNoMass) link.status = AssumptionStatus::checked;
  return link.status;
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
      part("support of p inside that of q", support) + "; prefixes as K_inf samples them";
  link.assumption = assumption;
  // The score norm can not be seen in captures, so what is known of the rest checks parts of it only.
  const bool broken = advantages == AssumptionStatus::broken || support == AssumptionStatus::broken;
  link.status = broken ? AssumptionStatus::broken : AssumptionStatus::unchecked;
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
