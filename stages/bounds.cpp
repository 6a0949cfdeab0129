#include "stages/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "stages/metric_test.hpp"
#include "stages/selection.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {
namespace {

using schema::Bound;
using schema::Horizon;
using schema::Metric;

constexpr double kEssToJudge = 0.5;  ///< ratio_mean is judged only above this ess_fraction

gpu::Moments total(const gpu::MeasurementTable& table, const Selection& selection, Metric metric) {
  gpu::Moments all;
  for (const std::size_t i : selection) {
    const gpu::Moments& part = table.sequences[i].metrics[static_cast<std::size_t>(metric)];
    if (part.n > 0) all.merge(part);
  }
  return all;
}

/// The estimate alone, with itself for a limit: what a floor shows beside a drift.
MeanTest estimate_only(std::span<const ClusterSum> clusters) {
  MeanTest test;
  test.clusters = clusters.size();
  for (const ClusterSum& c : clusters) test.n += static_cast<std::uint64_t>(c.n);
  test.estimate = ratio_mean(clusters);
  test.upper = test.estimate;
  test.method = "estimate";
  return test;
}

/// tv ≤ min(√(kl/2), √(1 − e^{−kl})); both are concave, so a mean KL bounds the mean tv (Jensen).
double tv_from_kl(double kl) {
  const double positive = std::max(0.0, kl);
  return std::min(std::sqrt(positive / 2), std::sqrt(-std::expm1(-positive)));
}

struct Builder {
  const gpu::MeasurementTable& table;
  const schema::Assumptions& assumptions;
  Selection selection;
  double alpha;
  std::uint64_t seed;
  BoundChain chain;
  bool values_only = false;  ///< no limits: resampling is most of the work

  MeanTest mean_of(Metric metric) const {
    const double mean = total(table, selection, metric).mean();
    if (values_only) {
      const auto index = static_cast<std::size_t>(metric);
      return estimate_only(collect(table, selection, [index](const gpu::SequenceRow& row) {
        return ClusterSum{static_cast<double>(row.metrics[index].n), row.metrics[index].sum};
      }));
    }
    auto test = test_metric(table, selection, {metric, schema::Aggregate::mean}, {mean, true}, alpha, seed);
    return test ? *test : MeanTest{};
  }

  BoundLink& add(std::uint32_t number, std::string name, std::optional<Bound> bound, Horizon horizon) {
    BoundLink link;
    link.number = number;
    link.name = std::move(name);
    link.bound = bound;
    link.horizon = horizon;
    link.alpha = alpha;
    link.clusters = selection.size();
    chain.links.push_back(std::move(link));
    return chain.links.back();
  }

  /// A link that is `factor` times the mean tv per token.
  BoundLink& add_scaled(std::uint32_t number, std::string name, Bound bound, const MeanTest& tv,
                        double factor) {
    BoundLink& link = add(number, std::move(name), bound, Horizon::token);
    link.inputs["tv"] = tv.estimate;
    link.value = factor * tv.estimate;
    if (tv.upper) link.upper = factor * std::min(1.0, *tv.upper);
    link.clusters = tv.clusters;
    link.method = tv.method;
    link.approximate = tv.approximate;
    return link;
  }

  /// Bounds of the mean of an unbounded figure; nothing without clusters.
  MeanTest resampled(std::span<const ClusterSum> clusters) const {
    if (clusters.empty()) return {};
    return values_only ? estimate_only(clusters) : bootstrap_t(clusters, ratio_mean(clusters), alpha, seed);
  }

  void add_span_links();
  void add_head_tail();
  void add_tv_links(const MeanTest& tv);
  void add_reward(const MeanTest& tv);
  void add_sequence();
  void add_policy(const MeanTest& tv);
  void add_clip_room();
  void add_sequence_scaled(std::uint32_t number, const char* name, Bound bound, double factor,
                           const std::string& assumption, AssumptionStatus status);
  [[nodiscard]] AssumptionStatus reward_status() const;
  [[nodiscard]] AssumptionStatus policy_status(BoundLink& link) const;
};

void Builder::add_span_links() {
  const gpu::Moments span = total(table, selection, Metric::logit_span);
  if (span.n == 0) return;
  const char* measured = "holds for every measured row; says nothing of rows that were not measured";
  BoundLink& tv = add(1, "span_tv", std::nullopt, Horizon::token);
  tv.inputs["logit_span_max"] = span.max;
  tv.value = std::tanh(span.max / 4);
  tv.method = "maximum over the measured rows";
  tv.assumption = measured;
  tv.status = AssumptionStatus::checked;
  BoundLink& kl = add(1, "span_kl", std::nullopt, Horizon::token);
  kl.inputs["logit_span_max"] = span.max;
  kl.value = span.max * span.max / 8;
  kl.method = "maximum over the measured rows";
  kl.assumption = measured;
  kl.status = AssumptionStatus::checked;
}

void Builder::add_head_tail() {
  gpu::Moments rows;
  for (const std::size_t i : selection) rows.merge(table.sequences[i].head_tail_tv);
  if (rows.n == 0) return;
  BoundLink& most = add(2, "head_tail", std::nullopt, Horizon::token);
  most.inputs["head_tail_tv_max"] = rows.max;
  most.value = rows.max;
  most.method = "maximum over the measured rows of the least m + (1 - m) tanh(s_H/4)";
  most.assumption = "holds for every measured row; says nothing of rows that were not measured";
  most.status = AssumptionStatus::checked;
  const auto clusters = collect(table, selection, [](const gpu::SequenceRow& row) {
    return ClusterSum{static_cast<double>(row.head_tail_tv.n), row.head_tail_tv.sum};
  });
  const MeanTest mean =
      values_only ? estimate_only(clusters) : bounded_mean(clusters, ratio_mean(clusters), 0, 1, alpha, seed);
  BoundLink& link = add(2, "head_tail_mean", Bound::tv, Horizon::token);
  link.inputs["head_tail_tv"] = mean.estimate;
  link.value = mean.estimate;
  if (mean.upper) link.upper = std::min(1.0, *mean.upper);
  link.clusters = mean.clusters;
  link.method = mean.undecidable.empty() ? mean.method : mean.undecidable;
  link.approximate = mean.approximate;
  link.assumption = "sequences are independent draws of the traffic that the corpus stands for";
}

void Builder::add_tv_links(const MeanTest& tv) {
  BoundLink& direct = add_scaled(1, "tv_measured", Bound::tv, tv, 1);
  direct.assumption = "sequences are independent draws of the traffic that the corpus stands for";
  const MeanTest train_inf = mean_of(Metric::kl_train_inf);
  const MeanTest inf_train = mean_of(Metric::kl_inf_train);
  const MeanTest& kl = inf_train.estimate < train_inf.estimate ? inf_train : train_inf;
  if (kl.n == 0) return;
  BoundLink& pinsker = add(1, "tv_from_kl", Bound::tv, Horizon::token);
  pinsker.inputs["kl"] = kl.estimate;
  pinsker.value = tv_from_kl(kl.estimate);
  if (kl.upper) pinsker.upper = tv_from_kl(*kl.upper);
  pinsker.clusters = kl.clusters;
  pinsker.method = kl.undecidable.empty() ? kl.method : kl.undecidable;
  pinsker.approximate = true;
  pinsker.assumption = direct.assumption;
}

AssumptionStatus Builder::reward_status() const {
  bool any = false;
  for (const std::size_t i : selection) {
    if (i >= table.infos.size() || !table.infos[i].reward) continue;
    any = true;
    const double reward = *table.infos[i].reward;
    if (reward < assumptions.reward->min || reward > assumptions.reward->max) return AssumptionStatus::broken;
  }
  return any ? AssumptionStatus::checked : AssumptionStatus::unchecked;
}

void Builder::add_reward(const MeanTest& tv) {
  if (!assumptions.reward) return;
  const double range = assumptions.reward->max - assumptions.reward->min;
  const std::string assumption = "every reward lies between the contract's reward.min and reward.max";
  BoundLink& link = add_scaled(3, "reward", Bound::reward, tv, range);
  link.inputs["reward_range"] = range;
  link.assumption = assumption;
  link.status = reward_status();
  add_sequence_scaled(3, "reward_sequence", Bound::reward, range, assumption, link.status);
}

void Builder::add_sequence() {
  const bool sampled = table.sampled_by_inf() || values_only;
  const char* rollouts =
      "tokens sampled by K_inf without filters, every position of each response captured to its end";
  const auto sums = [&](Metric metric) {
    const auto index = static_cast<std::size_t>(metric);
    return resampled(collect(table, selection, [index](const gpu::SequenceRow& row) {
      const gpu::Moments& m = row.metrics[index];
      return m.n == 0 ? ClusterSum{} : ClusterSum{1, m.sum};
    }));
  };
  const auto add_sum = [&](const char* name, const MeanTest& test, auto transform) {
    if (test.n == 0) return;
    BoundLink& link = add(4, name, Bound::sequence, Horizon::sequence);
    link.inputs["sum_per_sequence"] = test.estimate;
    link.value = std::min(1.0, transform(test.estimate));
    if (test.upper && sampled) link.upper = std::min(1.0, transform(*test.upper));
    link.clusters = test.clusters;
    link.method = test.undecidable.empty() ? test.method : test.undecidable;
    link.approximate = true;
    link.assumption = rollouts;
    link.status = sampled ? AssumptionStatus::unchecked : AssumptionStatus::broken;
  };
  add_sum("sequence_tv", sums(Metric::tv), [](double sum) { return std::max(0.0, sum); });
  add_sum("sequence_kl", sums(Metric::kl_inf_train),
          [](double sum) { return std::sqrt(std::max(0.0, sum) / 2); });
  if (assumptions.max_tokens == 0) return;
  const double length = assumptions.max_tokens;
  BoundLink& sup = add(4, "sequence_sup", std::nullopt, Horizon::sequence);
  const gpu::Moments tv = total(table, selection, Metric::tv);
  const gpu::Moments span = total(table, selection, Metric::logit_span);
  sup.inputs = {{"tv_max", tv.max}, {"logit_span_max", span.max}, {"max_tokens", length}};
  sup.value = std::min(
      {1.0, -std::expm1(length * std::log1p(-std::min(tv.max, 1.0))), span.max / 4 * std::sqrt(length)});
  sup.method = "maximum over the measured rows";
  sup.assumption = "the largest tv and span of the measured rows bound every reachable prefix";
}

void Builder::add_sequence_scaled(std::uint32_t number, const char* name, Bound bound, double factor,
                                  const std::string& assumption, AssumptionStatus status) {
  const BoundLink* base = best_link(chain, Bound::sequence, Horizon::sequence);
  if (base == nullptr) return;
  const BoundLink sequence = *base;
  BoundLink& link = add(number, name, bound, Horizon::sequence);
  link.inputs["tv_sequence"] = sequence.value.value_or(1);
  link.value = factor * sequence.value.value_or(1);
  if (sequence.upper) link.upper = factor * *sequence.upper;
  link.clusters = sequence.clusters;
  link.method = sequence.method;
  link.approximate = true;
  link.assumption = assumption + "; " + sequence.assumption;
  link.status = status == AssumptionStatus::broken ? status : sequence.status;
}

AssumptionStatus Builder::policy_status(BoundLink& link) const {
  AssumptionStatus status = AssumptionStatus::unchecked;  // the score norm cannot be seen in captures
  double least_log_q = 0;
  for (const std::size_t i : selection) {
    if (table.has_tokens) least_log_q = std::min(least_log_q, table.sequences[i].realised.min_log_q);
    if (i >= table.infos.size() || !table.infos[i].advantage) continue;
    if (std::abs(*table.infos[i].advantage) > assumptions.policy->advantage_max)
      status = AssumptionStatus::broken;
  }
  if (!table.has_tokens) return status;
  link.inputs["least_log_q"] = least_log_q;
  if (!table.sampled_by_inf() || values_only) return status;
  const auto ratio = test_metric(table, selection, {Metric::ratio_mean, {}}, {1, true}, alpha, seed);
  const auto ess =
      test_metric(table, selection, {Metric::ess_fraction, {}}, {kEssToJudge, false}, alpha, seed);
  if (!ratio || !ess) return status;
  link.inputs["ratio_mean"] = ratio->estimate;
  link.inputs["ess_fraction"] = ess->estimate;
  if (ratio->upper) link.inputs["ratio_mean_upper"] = *ratio->upper;
  // A mean ratio below 1 is mass of p where q has none: the support assumption fails.
  if (ess->estimate > kEssToJudge && ratio->upper && *ratio->upper < 1) return AssumptionStatus::broken;
  return status;
}

void Builder::add_policy(const MeanTest& tv) {
  if (!assumptions.policy) return;
  const auto& policy = *assumptions.policy;
  const double scale = policy.advantage_max * policy.score_norm_max;
  const std::string assumption =
      "advantages within advantage_max, score norm within score_norm_max, support of p inside that of q";
  BoundLink& link = add_scaled(5, "policy_gradient", Bound::policy_gradient, tv, 2 * scale);
  link.inputs["advantage_max"] = policy.advantage_max;
  link.inputs["score_norm_max"] = policy.score_norm_max;
  link.assumption = assumption;
  link.status = policy_status(link);
  const AssumptionStatus status = link.status;
  if (policy.is_clip && table.is_clip == policy.is_clip && table.sampled_by_inf() && table.has_tokens) {
    const auto clusters = collect(table, selection, [](const gpu::SequenceRow& row) {
      return ClusterSum{static_cast<double>(row.realised.n), row.realised.excess_is_clip};
    });
    const MeanTest excess = resampled(clusters);
    BoundLink& clipped = add(5, "policy_gradient_clipped", Bound::policy_gradient, Horizon::token);
    clipped.inputs = {{"is_clip", *policy.is_clip}, {"excess", excess.estimate}};
    clipped.value = scale * excess.estimate;
    // Resampling clusters of which hardly any has an excess says nothing of how large one may be.
    const bool few = std::ranges::count_if(clusters, [](const ClusterSum& c) { return c.sum > 0; }) <
                     static_cast<std::ptrdiff_t>(kLeastActiveClusters);
    if (excess.upper && !few) clipped.upper = scale * std::max(0.0, *excess.upper);
    clipped.method = excess.undecidable.empty() ? excess.method : excess.undecidable;
    if (excess.undecidable.empty() && few) {
      clipped.method = "too few ratios beyond the clip to bound their tail";
    }
    clipped.approximate = true;
    clipped.assumption = assumption + "; importance ratios clipped at is_clip";
    clipped.status = status;
  }
  if (assumptions.max_tokens > 0) {
    add_sequence_scaled(5, "policy_gradient_sequence", Bound::policy_gradient,
                        2 * scale * assumptions.max_tokens, assumption, status);
  }
}

void Builder::add_clip_room() {
  const gpu::Moments span = total(table, selection, Metric::logit_span);
  if (!assumptions.policy || span.n == 0) return;
  const double clip = assumptions.policy->ppo_clip;
  BoundLink& link = add(6, "clip_room", std::nullopt, Horizon::token);
  link.inputs = {{"ppo_clip", clip}, {"logit_span_max", span.max}};
  link.value = std::min(std::log1p(clip), -std::log1p(-clip)) - span.max;
  link.method = "maximum over the measured rows";
  link.assumption = "room for a policy's own log-ratio; negative when the kernels alone exceed the clip";
  link.status = AssumptionStatus::checked;
}

bool filtered(const gpu::CaptureIdentity& capture) {
  return !capture.sampling_filter.empty() && capture.sampling_filter != "none";
}

}  // namespace

std::string_view to_string(AssumptionStatus status) {
  switch (status) {
    case AssumptionStatus::checked:
      return "checked";
    case AssumptionStatus::unchecked:
      return "unchecked";
    case AssumptionStatus::broken:
      return "broken";
  }
  return "unknown";
}

namespace {

BoundChain build(Builder& builder, const schema::SliceWhere& where) {
  const gpu::MeasurementTable& table = builder.table;
  BoundChain& chain = builder.chain;
  chain.where = where;
  chain.sequences = builder.selection.size();
  for (const std::size_t i : builder.selection) chain.rows += table.sequences[i].rows;
  if (filtered(table.train) || filtered(table.inf)) {
    const std::string& filter =
        filtered(table.train) ? table.train.sampling_filter : table.inf.sampling_filter;
    chain.refused = "a capture was taken after the sampling filter '" + filter +
                    "', across which tokens enter and leave the set; capture before filtering";
    return chain;
  }
  for (const std::size_t i : builder.selection) {
    if (table.sequences[i].metrics[static_cast<std::size_t>(Metric::nonfinite)].sum > 0) {
      chain.refused = "a row has NaN or infinite logits, which no bound covers";
      return chain;
    }
  }
  const MeanTest tv = builder.mean_of(Metric::tv);
  if (tv.n == 0) {
    chain.refused = "no row has full logits";
    return chain;
  }
  builder.add_span_links();
  builder.add_head_tail();
  builder.add_tv_links(tv);
  builder.add_sequence();
  builder.add_reward(tv);
  builder.add_policy(tv);
  builder.add_clip_room();
  std::ranges::stable_sort(chain.links, {}, &BoundLink::number);
  return std::move(chain);
}

}  // namespace

BoundChain bound_chain(const gpu::MeasurementTable& table, const schema::Assumptions& assumptions,
                       const schema::SliceWhere& where, double alpha, std::uint64_t seed) {
  Builder builder{table, assumptions, select_sequences(table, where), alpha, seed, {}, false};
  return build(builder, where);
}

void add_floor_values(std::vector<BoundChain>& chains, const Floors& floors,
                      const schema::Assumptions& assumptions) {
  for (const FloorSide side : kFloorSides) {
    const gpu::MeasurementTable* table = floors.of(side).table;
    if (table == nullptr) continue;
    for (BoundChain& chain : chains) {
      Builder builder{*table, assumptions, select_sequences(*table, chain.where), 0, 0, {}, true};
      const BoundChain floor = build(builder, chain.where);
      for (BoundLink& link : chain.links) {
        const auto same = std::ranges::find_if(floor.links, [&](const BoundLink& other) {
          return other.number == link.number && other.name == link.name;
        });
        if (same != floor.links.end() && same->value)
          link.floors[std::string(to_string(side))] = *same->value;
      }
    }
  }
}

std::vector<BoundChain> bound_chains(const gpu::MeasurementTable& table,
                                     const schema::Assumptions& assumptions,
                                     const std::vector<schema::SliceWhere>& slices, double alpha,
                                     std::uint64_t seed) {
  std::vector<BoundChain> chains{bound_chain(table, assumptions, {}, alpha, seed)};
  for (const schema::SliceWhere& where : slices)
    chains.push_back(bound_chain(table, assumptions, where, alpha, seed));
  return chains;
}

const BoundLink* best_link(const BoundChain& chain, Bound bound, Horizon horizon) {
  const BoundLink* best = nullptr;
  for (const BoundLink& link : chain.links) {
    const bool usable = link.bound == bound && link.horizon == horizon && link.upper &&
                        link.status != AssumptionStatus::broken;
    if (usable && (best == nullptr || *link.upper < *best->upper)) best = &link;
  }
  return best;
}

}  // namespace driftgate::stages
