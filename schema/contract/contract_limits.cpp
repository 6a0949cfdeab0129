#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/contract/contract_parse.hpp"
#include "schema/json.hpp"

namespace driftgate::schema::detail {
namespace {

using Names = std::vector<std::string_view>;

bool is_census(const MetricSubject& subject) {
  return subject.aggregate == Aggregate::sum || subject.aggregate == Aggregate::min ||
         subject.aggregate == Aggregate::max;
}

bool is_mean(const MetricSubject& subject) {
  return subject.aggregate == Aggregate::mean || subject.aggregate == Aggregate::sequence_mean;
}

Names allowed_limits(const Subject& subject) {
  if (std::holds_alternative<BoundSubject>(subject)) return {"max"};
  if (std::holds_alternative<OutcomeSubject>(subject)) return {"non_inferiority_margin"};
  if (const auto* signal = std::get_if<SignalSubject>(&subject)) {
    if (signal->signal == Metric::shadow_pairs) return {"min_count"};
    if (signal->signal == Metric::logprobs) return {"min_coverage"};
    return {"max_staleness"};
  }
  if (std::holds_alternative<ExactSubject>(subject)) return {"min_count"};
  const auto& metric = std::get<MetricSubject>(subject);
  if (info(metric.metric).group == MetricGroup::traffic) return {"max", "max_ratio", "max_delta"};
  if (metric.metric == Metric::band_retention) return {"min"};
  if (metric.metric == Metric::ece_drift) return {"max", "max_delta"};
  if (info(metric.metric).group == MetricGroup::batch) return {"max"};
  if (metric.metric == Metric::prefix_agreement || metric.metric == Metric::first_divergence) return {"min"};
  if (metric.metric == Metric::divergence_rate) return {"max", "floor_multiple", "floor_cap"};
  Names names{"max", "min"};
  if (why_no_delta(metric).empty()) names.push_back("max_delta");
  if (has_floor(metric)) names.insert(names.end(), {"floor_multiple", "floor_cap"});
  if (is_census(metric)) names.push_back("min_count");
  return names;
}

NumberRange limit_range(const Subject& subject, const Contract& contract) {
  if (const auto* metric = std::get_if<MetricSubject>(&subject)) {
    return {info(metric->metric).low, info(metric->metric).high};
  }
  const auto* bound = std::get_if<BoundSubject>(&subject);
  if (bound == nullptr) return {};
  if (bound->bound == Bound::reward && contract.assumptions.reward) {
    return {0, contract.assumptions.reward->max - contract.assumptions.reward->min};
  }
  if (bound->bound == Bound::tv || bound->bound == Bound::sequence) return {0, 1};
  return {0, HUGE_VAL};
}

// The largest difference that two figures of the subject can have.
double largest_delta(const Subject& subject) {
  const auto* metric = std::get_if<MetricSubject>(&subject);
  if (metric == nullptr) return HUGE_VAL;
  const MetricInfo& entry = info(metric->metric);
  return metric->metric == Metric::ece_drift ? entry.high : entry.high - entry.low;
}

void read_values(Fields& fields, const Subject& subject, const Contract& contract, Limits& limits) {
  const NumberRange range = limit_range(subject, contract);
  const auto in_range = [&](const Cursor& c) { return read_number(c, range); };
  fields.take("max", limits.max, in_range);
  fields.take("min", limits.min, in_range);
  // r_0 ≥ 1: the label process only shows harm (docs/design/statistics.md, "Single failures").
  fields.take("max_ratio", limits.max_ratio, [](const Cursor& c) { return read_number(c, {1, 1'000}); });
  fields.take("max_delta", limits.max_delta, [&](const Cursor& c) {
    return read_number(c, {0, largest_delta(subject)});
  });
  fields.take("non_inferiority_margin", limits.non_inferiority_margin, [](const Cursor& c) {
    return read_number(c, {0, 1, false, true});
  });
  fields.take("min_count", limits.min_count, [](const Cursor& c) { return read_count(c, 1, kMaxCount); });
  fields.take("min_coverage", limits.min_coverage, [](const Cursor& c) {
    return read_number(c, {0, 1, true});
  });
  fields.take("max_staleness", limits.max_staleness_ms,
              [](const Cursor& c) { return read_duration_ms(c, 100, 86'400'000); });
  fields.take("floor_multiple", limits.floor_multiple, [](const Cursor& c) {
    return read_number(c, {1, HUGE_VAL});
  });
  fields.take("floor_cap", limits.floor_cap, in_range);
}

// Exactly one kind of limit, or max and max_ratio; min_count beside a census limit is its sample size.
void check_combination(const Cursor& at, const Names& stated, const Names& allowed) {
  Names kinds;
  for (const std::string_view name : stated) {
    const bool helper =
        name == "floor_multiple" || name == "floor_cap" || (name == "min_count" && allowed.size() > 1);
    if (!helper) kinds.push_back(name);
  }
  if (kinds.empty()) {
    Names primary;
    for (const std::string_view name : allowed) {
      if (!name.starts_with("floor_")) primary.push_back(name);
    }
    return at.refuse(fmt::format("the clause states no limit; allowed: {}", fmt::join(primary, ", ")));
  }
  const bool pair = kinds.size() == 2 && kinds[0] == "max" && kinds[1] == "max_ratio";
  if (kinds.size() > 1 && !pair) {
    at.refuse(fmt::format(
        "the clause states {} kinds of limit ({}); state one, or max and max_ratio together, and put "
        "others in clauses of their own",
        kinds.size(), fmt::join(kinds, ", ")));
  }
}

}  // namespace

std::string why_no_delta(const MetricSubject& subject) {
  const MetricInfo& entry = info(subject.metric);
  switch (subject.metric) {
    case Metric::entropy_inf:
    case Metric::logprob_inf:
      if (is_mean(subject)) return {};
      return "it is the difference of two kernels' means, so the aggregate is mean or sequence_mean";
    case Metric::entropy_train:
      return "state it on entropy_inf, whose mean is held against that of entropy_train";
    case Metric::logprob_train:
      return "state it on logprob_inf, whose mean is held against that of logprob_train";
    case Metric::top1_margin:
      return "top1_margin is measured on the training kernel alone";
    case Metric::band_retention:
      return "band_retention already compares the two kernels and is limited from below";
    case Metric::nonfinite:
      return "nonfinite counts the logits of both kernels together";
    default:
      break;
  }
  if (entry.group == MetricGroup::traffic || entry.group == MetricGroup::calibration) return {};
  if (entry.group == MetricGroup::batch)
    return "batch_variant_rate compares a kernel with itself at another batch size";
  return fmt::format("{} already compares the two kernels", entry.name);
}

Limits read_limits(Fields& fields, const Subject& subject, const Contract& contract) {
  const Names allowed = allowed_limits(subject);
  Names stated;
  bool foreign = false;
  for (const std::string_view name : kLimitNames) {
    const auto at = fields.find(name);
    if (!at) continue;
    stated.push_back(name);
    if (!std::count(allowed.begin(), allowed.end(), name)) {
      foreign = true;
      const auto* metric = std::get_if<MetricSubject>(&subject);
      const std::string why = metric != nullptr && name == "max_delta" ? ": " + why_no_delta(*metric) : "";
      at->refuse(fmt::format("the limit {} makes no sense here{}; allowed: {}", name, why,
                             fmt::join(allowed, ", ")));
    }
  }
  Limits limits;
  if (foreign) return limits;
  read_values(fields, subject, contract, limits);
  // `equal: true` is the limit of an exact clause, and min_count its sample size.
  if (!std::holds_alternative<ExactSubject>(subject)) check_combination(fields.cursor(), stated, allowed);
  check_floor(fields, limits);
  return limits;
}

}  // namespace driftgate::schema::detail
