#include "stages/bounds/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schema/contract/contract_means.hpp"
#include "stages/bounds/bound_builder.hpp"
#include "stages/clauses/bounded_test.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {
namespace {

using schema::Bound;
using schema::Horizon;
using schema::Metric;

constexpr const char* kEveryMeasuredRow = "the rows that were measured; it says nothing of others";
constexpr const char* kIndependent =
    "sequences are independent draws of the traffic that the corpus stands for";

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

double pinsker(double kl) {
  return std::sqrt(std::max(0.0, kl) / 2);
}
/// Bretagnolle and Huber (1979): the better of the two from a KL of about 1.6 on.
double bretagnolle_huber(double kl) {
  return std::sqrt(-std::expm1(-std::max(0.0, kl)));
}
/// Both are concave, so a mean KL bounds the mean tv (Jensen).
double tv_from_kl(double kl) {
  return std::min(pinsker(kl), bretagnolle_huber(kl));
}

bool filtered(const gpu::CaptureIdentity& capture) {
  return !capture.sampling_filter.empty() && capture.sampling_filter != "none";
}

}  // namespace

gpu::Moments total_moments(const gpu::MeasurementTable& table, const Selection& selection, Metric metric) {
  gpu::Moments all;
  for (const std::size_t i : selection)
    all.merge(table.sequences[i].metrics[static_cast<std::size_t>(metric)]);
  return all;
}

gpu::Moments BoundBuilder::at_most(const gpu::SequenceRow& row, Metric metric) const {
  const auto bounded = table.bounded(metric);
  if (bounded && row.bounds) return row.bounds->metrics[*bounded].upper;
  return row.metrics[static_cast<std::size_t>(metric)];
}

double BoundBuilder::largest(Metric metric) const {
  gpu::Moments all;
  for (const std::size_t i : selection) all.merge(at_most(table.sequences[i], metric));
  return all.n == 0 ? std::numeric_limits<double>::infinity() : all.max;
}

MeanTest BoundBuilder::mean_of(Metric metric) const {
  const double mean = total(metric).mean();
  if (values_only) {
    const auto index = static_cast<std::size_t>(metric);
    return once_each([index](const gpu::SequenceRow& row) { return row.metrics[index]; });
  }
  // KL has no largest value: its mean is resampled, and the link says that it is approximate.
  const MeanRules rules{.means = schema::has_finite_range(metric) ? schema::Means::exact
                                                                  : schema::Means::approximate};
  auto test = test_metric(table, selection, {metric, schema::Aggregate::sequence_mean}, {mean, true}, rules,
                          alpha, seed);
  return test ? *test : MeanTest{};
}

MeanTest BoundBuilder::once_each(const std::function<gpu::Moments(const gpu::SequenceRow&)>& moments) const {
  auto clusters = collect(table, selection, [&](const gpu::SequenceRow& row) {
    const gpu::Moments m = moments(row);
    return m.n == 0 ? ClusterSum{} : ClusterSum{1, m.sum / static_cast<double>(m.n)};
  });
  count_once(clusters);
  return values_only ? estimate_only(clusters)
                     : betting_mean(clusters, ratio_mean(clusters), {}, alpha, seed);
}

MeanTest BoundBuilder::resampled(std::span<const ClusterSum> clusters, double level) const {
  if (clusters.empty()) return {};
  return values_only ? estimate_only(clusters) : bootstrap_t(clusters, ratio_mean(clusters), level, seed);
}

BoundLink& BoundBuilder::add(std::uint32_t number, std::string name, std::optional<Bound> bound,
                             Horizon horizon) {
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

void BoundBuilder::add_missing(std::uint32_t number, std::string name, std::optional<Bound> bound,
                               Horizon horizon, std::string needs) {
  BoundLink& link = add(number, std::move(name), bound, horizon);
  link.method = "not computed: needs " + needs;
  link.assumption = std::move(needs);
}

BoundLink& BoundBuilder::add_maximum(std::uint32_t number, std::string name, double value, Horizon horizon) {
  BoundLink& link = add(number, std::move(name), std::nullopt, horizon);
  link.value = value;
  link.method = "maximum over the measured rows";
  link.assumption = kEveryMeasuredRow;
  link.status = AssumptionStatus::checked;
  return link;
}

BoundLink& BoundBuilder::add_mean(std::uint32_t number, std::string name, std::optional<Bound> bound,
                                  Horizon horizon, const MeanTest& mean,
                                  const std::function<double(double)>& transform) {
  BoundLink& link = add(number, std::move(name), bound, horizon);
  link.value = transform(mean.estimate);
  if (mean.upper) link.upper = transform(*mean.upper);
  link.clusters = mean.clusters;
  link.method = mean.undecidable.empty() ? mean.method : mean.undecidable;
  link.approximate = mean.approximate;
  return link;
}

BoundLink& BoundBuilder::add_scaled(std::uint32_t number, std::string name, Bound bound, const MeanTest& tv,
                                    double factor) {
  BoundLink& link = add_mean(number, std::move(name), bound, Horizon::token, tv,
                             [factor](double mean) { return factor * std::min(1.0, mean); });
  link.inputs["tv"] = tv.estimate;
  return link;
}

void BoundBuilder::add_span_links() {
  const gpu::Moments span = total(Metric::logit_span);
  if (span.n == 0) return;
  const auto input = [&span](BoundLink& link) { link.inputs["logit_span_max"] = span.max; };
  BoundLink& ratio = add_maximum(1, "span_log_ratio", span.max);
  input(ratio);
  if (const gpu::Moments seen = total(Metric::log_ratio); seen.n > 0)
    ratio.inputs["abs_log_ratio_max"] = std::max(std::abs(seen.min), std::abs(seen.max));
  BoundLink& tv = add_maximum(1, "span_tv", std::tanh(span.max / 4));
  input(tv);
  tv.inputs["quarter_span"] = span.max / 4;
  input(add_maximum(1, "span_kl", span.max * span.max / 8));
}

void BoundBuilder::add_head_tail() {
  gpu::Moments rows;
  for (const std::size_t i : selection) rows.merge(table.sequences[i].head_tail_tv);
  if (rows.n == 0) return;
  BoundLink& most = add_maximum(2, "head_tail", rows.max);
  most.inputs["head_tail_tv_max"] = rows.max;
  most.method = "maximum over the measured rows of the least m + (1 - m) tanh(s_H/4)";
  const MeanTest mean = once_each([](const gpu::SequenceRow& row) { return row.head_tail_tv; });
  BoundLink& link = add_mean(2, "head_tail_mean", Bound::tv, Horizon::token, mean,
                             [](double value) { return std::min(1.0, value); });
  link.inputs["head_tail_tv"] = mean.estimate;
  link.assumption = kIndependent;
}

MeanTest BoundBuilder::add_tv_links() {
  if (table.bounded(Metric::tv)) {
    MeanTest most = once_each([this](const gpu::SequenceRow& row) { return at_most(row, Metric::tv); });
    if (most.clusters == 0) return {};
    add_scaled(1, "tv_upper", Bound::tv, most, 1).assumption = kIndependent;
    return most;
  }
  MeanTest tv = mean_of(Metric::tv);
  if (tv.n > 0) add_scaled(1, "tv_measured", Bound::tv, tv, 1).assumption = kIndependent;
  const MeanTest train_inf = mean_of(Metric::kl_train_inf);
  const MeanTest inf_train = mean_of(Metric::kl_inf_train);
  MeanTest kl = inf_train.estimate < train_inf.estimate ? inf_train : train_inf;
  if (kl.n == 0) return tv;
  BoundLink& link = add_mean(1, "tv_from_kl", Bound::tv, Horizon::token, kl, tv_from_kl);
  link.inputs = {{"kl", kl.estimate},
                 {"pinsker", pinsker(kl.estimate)},
                 {"bretagnolle_huber", bretagnolle_huber(kl.estimate)}};
  link.approximate = true;
  link.assumption = kIndependent;
  if (tv.n > 0) return tv;
  // Core metrics know no tv: what it would be at most takes its place.
  kl.estimate = *link.value;
  kl.upper = link.upper;
  kl.approximate = true;
  kl.method = "tv_from_kl: " + link.method;
  kl.undecidable.clear();
  return kl;
}

void BoundBuilder::add_filters() {
  BoundLink& link = add(8, "filters", std::nullopt, Horizon::token);
  link.inputs["logit_span_max"] = largest(Metric::logit_span);
  link.inputs["nonfinite"] = total(Metric::nonfinite).sum;
  link.method =
      "sampling_filter of both captures is none, absent counting as none; no token is masked in one alone";
  link.assumption = "logits were captured before any sampling filter";
  link.status = AssumptionStatus::checked;
}

std::string_view to_string(AssumptionStatus status) {
  switch (status) {
    case AssumptionStatus::checked:
      return "checked";
    case AssumptionStatus::unchecked:
      return "unchecked";
    case AssumptionStatus::suspicious:
      return "suspicious";
    case AssumptionStatus::broken:
      return "broken";
  }
  return "unknown";
}

namespace {

BoundChain build(BoundBuilder& builder, const schema::SliceWhere& where) {
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
  if (std::string finding = deciding_finding(table); !finding.empty()) {
    chain.refused = std::move(finding);
    return chain;
  }
  builder.add_span_links();
  builder.add_head_tail();
  const MeanTest tv = builder.add_tv_links();
  if (tv.n == 0) {
    chain.links.clear();
    chain.refused = "nothing is known of the tv or the KL of any row";
    return chain;
  }
  builder.add_sequence();
  builder.add_reward(tv);
  builder.add_policy(tv);
  builder.add_clip_room();
  builder.add_inversion();
  builder.add_filters();
  std::ranges::stable_sort(chain.links, {}, &BoundLink::number);
  return std::move(chain);
}

}  // namespace

BoundChain bound_chain(const gpu::MeasurementTable& table, const schema::Assumptions& assumptions,
                       const schema::SliceWhere& where, double alpha, std::uint64_t seed,
                       std::optional<double> reward_tolerance) {
  BoundBuilder builder{table, assumptions, select_sequences(table, where), alpha, seed, reward_tolerance};
  return build(builder, where);
}

BoundChain bound_values(const gpu::MeasurementTable& table, const schema::Assumptions& assumptions,
                        const schema::SliceWhere& where, std::optional<double> reward_tolerance) {
  BoundBuilder builder{table, assumptions, select_sequences(table, where), 0, 0, reward_tolerance};
  builder.values_only = true;
  return build(builder, where);
}

void add_floor_values(std::vector<BoundChain>& chains, const Floors& floors,
                      const schema::Assumptions& assumptions) {
  for (const FloorSide side : kFloorSides) {
    const gpu::MeasurementTable* table = floors.of(side).table;
    if (table == nullptr) continue;
    for (BoundChain& chain : chains) {
      const BoundChain floor = bound_values(*table, assumptions, chain.where);
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
                                     std::uint64_t seed, std::optional<double> reward_tolerance) {
  std::vector<BoundChain> chains{bound_chain(table, assumptions, {}, alpha, seed, reward_tolerance)};
  for (const schema::SliceWhere& where : slices)
    chains.push_back(bound_chain(table, assumptions, where, alpha, seed, reward_tolerance));
  return chains;
}

std::optional<double> reward_tolerance(const schema::Contract& contract) {
  std::optional<double> least;
  for (const schema::Clause& clause : contract.clauses) {
    const auto* subject = std::get_if<schema::BoundSubject>(&clause.subject);
    if (subject == nullptr || subject->bound != Bound::reward || !clause.limits.max) continue;
    least = std::min(least.value_or(*clause.limits.max), *clause.limits.max);
  }
  return least;
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
