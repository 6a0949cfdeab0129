#include <algorithm>
#include <cmath>

#include "stages/bounds/bound_builder.hpp"

// docs/design/measurement.md, "Link 3: rewards", "Link 4: whole sequences" and "Link 7: inversion".

namespace driftgate::stages {
namespace {

using schema::Bound;
using schema::Horizon;
using schema::Metric;

constexpr const char* kEveryPrefix =
    "the largest tv and span of the measured rows bound every reachable prefix";
constexpr const char* kWholeResponses =
    "tokens sampled by K_inf without filters, every position of each response captured to its end";
/// Reward tolerance of link 7 where no clause states one, as a share of the reward's range.
constexpr double kDefaultTolerance = 0.01;

}  // namespace

AssumptionStatus BoundBuilder::reward_status(BoundLink& link) const {
  gpu::Moments seen;
  for (const std::size_t i : selection) {
    if (i < table.infos.size() && table.infos[i].reward) seen.add(*table.infos[i].reward);
  }
  link.inputs["rewards"] = static_cast<double>(seen.n);
  if (seen.n == 0) return AssumptionStatus::unchecked;
  link.inputs["reward_least"] = seen.min;
  link.inputs["reward_largest"] = seen.max;
  if (seen.min < assumptions.reward->min || seen.max > assumptions.reward->max)
    return AssumptionStatus::broken;
  return seen.n == selection.size() ? AssumptionStatus::checked : AssumptionStatus::unchecked;
}

void BoundBuilder::add_reward(const MeanTest& tv) {
  if (!assumptions.reward) {
    add_missing(3, "reward", Bound::reward, Horizon::token, "assumptions.reward");
    return;
  }
  const double range = assumptions.reward->max - assumptions.reward->min;
  const std::string assumption = "every reward lies between the contract's reward.min and reward.max";
  BoundLink& link = add_scaled(3, "reward", Bound::reward, tv, range);
  link.inputs["reward_range"] = range;
  link.assumption = assumption;
  link.status = reward_status(link);
  const AssumptionStatus status = link.status;
  add_sequence_scaled(3, "reward_sequence", Bound::reward, range, part(assumption, status), status);
}

void BoundBuilder::add_sequence() {
  const bool sampled = table.sampled_by_inf() || values_only;
  gpu::Moments length;
  for (const std::size_t i : selection) length.add(table.sequences[i].rows);
  const std::vector<ClusterSum> losses = lost_shares();
  // Two or three limits stand for the best of them, so each has its share of the level.
  const bool all_known =
      std::ranges::all_of(selection, [&](std::size_t i) { return table.sequences[i].target.n > 0; });
  const int limits = sampled && !values_only && all_known && !losses.empty() ? 3 : 2;
  const double level = alpha / limits;
  const auto sums = [&](Metric metric) {
    const auto clusters = collect(table, selection, [&](const gpu::SequenceRow& row) {
      const gpu::Moments m = at_most(row, metric);
      return m.n == 0 || !std::isfinite(m.sum) ? ClusterSum{} : ClusterSum{1, m.sum};
    });
    // A sequence left out would be a term left out.
    if (clusters.empty() || !std::isfinite(largest(metric))) return MeanTest{};
    return resampled(clusters, level);
  };
  const auto add_sum = [&](const char* name, const MeanTest& test,
                           const std::function<double(double)>& form) {
    if (test.n == 0) return;
    BoundLink& link = add_mean(4, name, Bound::sequence, Horizon::sequence, test, form);
    link.alpha = level;
    link.inputs["sum_per_sequence"] = test.estimate;
    link.inputs["rows_per_sequence_least"] = length.min;
    link.inputs["rows_per_sequence_most"] = length.max;
    link.approximate = true;
    link.assumption = kWholeResponses;
    link.status = sampled ? AssumptionStatus::unchecked : AssumptionStatus::broken;
    if (!sampled) link.upper.reset();
  };
  add_sum("sequence_tv", sums(Metric::tv), [](double sum) { return std::clamp(sum, 0.0, 1.0); });
  add_sum("sequence_kl", sums(Metric::kl_inf_train),
          [](double sum) { return std::min(1.0, std::sqrt(std::max(0.0, sum) / 2)); });
  if (limits == 3) add_sequence_sampled(losses, level);
  add_sequence_best(limits);
  add_sequence_estimate(losses, sampled);
  add_sequence_sups();
}

void BoundBuilder::add_sequence_sampled(std::span<const ClusterSum> losses, double level) {
  const MeanTest exact = betting_mean(losses, ratio_mean(losses), {}, level, seed);
  BoundLink& link = add_mean(4, "sequence_sampled", Bound::sequence, Horizon::sequence, exact,
                             [](double value) { return std::clamp(value, 0.0, 1.0); });
  link.alpha = level;
  link.assumption = kWholeResponses;
  link.status = AssumptionStatus::unchecked;
}

void BoundBuilder::add_sequence_best(int limits) {
  const BoundLink* found = best_link(chain, Bound::sequence, Horizon::sequence);
  if (found == nullptr) return;
  const BoundLink source = *found;
  BoundLink& best = add(4, "sequence_best", std::nullopt, Horizon::sequence);
  const std::uint32_t number = best.number;
  best = source;
  best.number = number;
  best.name = "sequence_best";
  best.bound.reset();
  best.alpha = alpha;
  best.from = source.name;
  best.method =
      (limits == 3 ? "the smallest limit of sequence_tv, sequence_kl and sequence_sampled, each at a third "
                     "of alpha: "
                   : "the smaller limit of sequence_tv and sequence_kl, each at half of alpha: ") +
      source.method;
}

void BoundBuilder::add_sequence_sups() {
  if (assumptions.max_tokens == 0) {
    add_missing(4, "sequence_sup_tv", std::nullopt, Horizon::sequence, "assumptions.max_tokens");
    return;
  }
  const double tokens = assumptions.max_tokens;
  const double tv = std::min(1.0, largest(Metric::tv)), span = largest(Metric::logit_span);
  BoundLink& by_tv =
      add_maximum(4, "sequence_sup_tv", -std::expm1(tokens * std::log1p(-tv)), Horizon::sequence);
  by_tv.inputs = {{"tv_max", tv}, {"max_tokens", tokens}};
  by_tv.assumption = kEveryPrefix;
  by_tv.status = AssumptionStatus::unchecked;
  BoundLink& by_span =
      add_maximum(4, "sequence_sup_span", std::min(1.0, span / 4 * std::sqrt(tokens)), Horizon::sequence);
  by_span.inputs = {{"logit_span_max", span}, {"max_tokens", tokens}};
  by_span.assumption = kEveryPrefix;
  by_span.status = AssumptionStatus::unchecked;
}

std::vector<ClusterSum> BoundBuilder::lost_shares() const {
  auto clusters = collect(table, selection, [](const gpu::SequenceRow& row) {
    if (row.target.n == 0) return ClusterSum{};
    return ClusterSum{1, std::max(0.0, -std::expm1(row.target.log_w))};
  });
  count_once(clusters);
  return clusters;
}

void BoundBuilder::add_sequence_estimate(std::span<const ClusterSum> losses, bool sampled) {
  if (losses.empty()) return;
  const MeanTest test = resampled(losses, alpha);
  BoundLink& link = add_mean(4, "tv_sequence", std::nullopt, Horizon::sequence, test,
                             [](double value) { return std::clamp(value, 0.0, 1.0); });
  link.approximate = true;
  link.assumption = kWholeResponses;
  link.status = sampled ? AssumptionStatus::unchecked : AssumptionStatus::broken;
  if (!sampled) {
    link.upper.reset();
    return;
  }
  if (test.lower) link.inputs["lower"] = std::max(0.0, *test.lower);
  if (values_only) return;
  const MeanTest exact = betting_mean(losses, test.estimate, {}, alpha, seed);
  if (exact.upper) link.inputs["upper_exact"] = *exact.upper;
}

void BoundBuilder::add_sequence_scaled(std::uint32_t number, const char* name, Bound bound, double factor,
                                       const std::string& assumption, AssumptionStatus status) {
  const BoundLink* base = best_link(chain, Bound::sequence, Horizon::sequence);
  if (base == nullptr) return;
  const BoundLink sequence = *base;
  BoundLink& link = add(number, name, bound, Horizon::sequence);
  link.inputs["tv_sequence"] = sequence.value.value_or(1);
  link.inputs["factor"] = factor;
  link.value = factor * sequence.value.value_or(1);
  if (sequence.upper) link.upper = factor * *sequence.upper;
  link.clusters = sequence.clusters;
  link.method = sequence.method;
  link.from = sequence.name;
  link.approximate = true;
  link.assumption = assumption + "; " + sequence.assumption;
  link.status = status >= AssumptionStatus::suspicious ? std::max(status, sequence.status) : sequence.status;
}

void BoundBuilder::add_inversion() {
  if (!assumptions.reward || assumptions.max_tokens == 0) {
    add_missing(7, "inversion", std::nullopt, Horizon::sequence,
                "assumptions.reward and assumptions.max_tokens");
    return;
  }
  const double range = assumptions.reward->max - assumptions.reward->min;
  const double tolerance = reward_tolerance.value_or(kDefaultTolerance * range);
  const double tokens = assumptions.max_tokens;
  BoundLink& link = add(7, "inversion", std::nullopt, Horizon::sequence);
  link.inputs = {{"reward_tolerance", tolerance},
                 {"reward_range", range},
                 {"max_tokens", tokens},
                 {"logit_span_max", largest(Metric::logit_span)}};
  if (range > 0) link.value = 4 * tolerance / (range * std::sqrt(tokens));
  link.method = reward_tolerance ? "the tolerance is the least max of a reward clause"
                                 : "no clause states a tolerance: 1% of the reward's range";
  link.assumption = "a span of at most this value on every reachable prefix";
}

}  // namespace driftgate::stages
