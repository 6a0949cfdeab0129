#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/contract/contract_blocks.hpp"
#include "schema/contract/contract_guard.hpp"
#include "schema/contract/contract_parse.hpp"
#include "schema/contract/least_n.hpp"
#include "schema/json.hpp"

namespace driftgate::schema::detail {
namespace {

// Values of one metric obey min ≤ p50 ≤ … ≤ p99_9 ≤ max and min ≤ mean ≤ max. True when `low` is never
// above `high` on the same rows.
bool never_above(Aggregate low, Aggregate high) {
  if (low == high || low == Aggregate::min || high == Aggregate::max) {
    return low != Aggregate::sum && high != Aggregate::sum;
  }
  const auto p = quantile_of(low), q = quantile_of(high);
  return p && q && *p < *q;
}

struct Side {
  const Clause* clause;
  Metric metric;
  Aggregate aggregate;
  double limit;
};

std::vector<Side> sides(const Contract& contract, bool lower) {
  std::vector<Side> found;
  for (const Clause& clause : contract.clauses) {
    const auto* subject = std::get_if<MetricSubject>(&clause.subject);
    const auto& limit = lower ? clause.limits.min : clause.limits.max;
    if (subject == nullptr || !limit) continue;
    // Capped means and quantiles of sequences are figures of another population than the rows.
    if (clause.clip || clause.over == QuantileOver::sequences) continue;
    // A metric of one figure is compared with itself.
    found.push_back({&clause, subject->metric, subject->aggregate.value_or(Aggregate::mean), *limit});
  }
  return found;
}

std::string side_text(const Side& side, std::string_view kind) {
  return fmt::format("{} ({} {} {})", side.clause->address(), to_string(side.aggregate), kind,
                     ecmascript_number(side.limit));
}

}  // namespace

void check_joint_limits(const Contract& contract, std::vector<Fault>& faults, std::vector<Fault>& warnings) {
  for (const Side& low : sides(contract, true)) {
    for (const Side& high : sides(contract, false)) {
      const bool same_stage = (low.clause->stages & high.clause->stages) != 0;
      if (low.metric != high.metric || !same_stage || !never_above(low.aggregate, high.aggregate)) continue;
      if (low.limit <= high.limit) continue;
      const bool hard = low.clause->severity == Severity::hard && high.clause->severity == Severity::hard;
      const Side& later = low.clause->position.line > high.clause->position.line ? low : high;
      (hard ? faults : warnings)
          .push_back({later.clause->position, "",
                      fmt::format("{} and {} of {} cannot both hold; change one of them",
                                  side_text(low, "min"), side_text(high, "max"), to_string(low.metric))});
    }
  }
}

namespace {

void warn_stages(const Contract& contract, std::vector<Fault>& warnings) {
  StageSet demanded = 0;
  for (const Clause& clause : contract.clauses) demanded = static_cast<StageSet>(demanded | clause.stages);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if ((demanded & stage_bit(stage)) != 0) continue;
    warnings.push_back(
        {{},
         "",
         fmt::format("nothing is demanded in {}: it measures, records and passes", to_string(stage))});
  }
  if (!contract.canary) {
    warnings.push_back({{},
                        "",
                        "stages.canary is absent: the contract can judge captures, and no promotion can end "
                        "under it; add stages.canary with its steps"});
  }
}

void warn_limits(const Contract& contract, std::vector<Fault>& warnings) {
  for (const Clause& clause : contract.clauses) {
    const auto* subject = std::get_if<MetricSubject>(&clause.subject);
    if (subject == nullptr) continue;
    const MetricInfo& entry = info(subject->metric);
    const bool vacuous = (clause.limits.max && *clause.limits.max == entry.high) ||
                         (clause.limits.min && *clause.limits.min == entry.low);
    if (vacuous) {
      warnings.push_back({clause.position, "",
                          fmt::format("{} can never be violated: its limit is the end of the range of "
                                      "{}",
                                      clause.address(), entry.name)});
    }
  }
}

void warn_discovery(const Contract& contract, std::vector<Fault>& warnings) {
  if (!contract.slices.discover || std::ranges::any_of(contract.clauses, discovery_searches)) return;
  warnings.push_back(
      {{},
       "",
       "slices.discover has nothing to search: it looks at statistical clauses with max or min "
       "on a bounded mean or a quantile, and at outcomes"});
}

void warn_sample_sizes(const Contract& contract, std::vector<Fault>& warnings) {
  for (const Clause& clause : contract.clauses) {
    for (const LeastN& need : least_n(clause, contract)) {
      if (!need.n) {
        warnings.push_back(
            {clause.position, "",
             fmt::format("{} can never pass in {}: {}", clause.address(), to_string(need.stage), need.why)});
      } else if (need.stage == Stage::canary && contract.canary && contract.canary->min_keys < *need.n) {
        warnings.push_back(
            {clause.position, "",
             fmt::format(
                 "{} needs at least {} {} in a first canary ({}), and min_keys is {}: a step will wait for "
                 "more than min_keys; raise it to {} to see this in the plan",
                 clause.address(), *need.n, need.unit, need.why, contract.canary->min_keys, *need.n)});
      }
    }
  }
}

}  // namespace

void warn(const Contract& contract, std::vector<Fault>& warnings) {
  warn_stages(contract, warnings);
  warn_limits(contract, warnings);
  warn_clips(contract, warnings);
  warn_discovery(contract, warnings);
  warn_sample_sizes(contract, warnings);
  warn_sizes(contract, warnings);
  warn_blocks(contract, warnings);
  warn_guard(contract, warnings);
}

}  // namespace driftgate::schema::detail
