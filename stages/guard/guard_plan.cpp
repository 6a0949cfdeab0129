#include <algorithm>
#include <cmath>
#include <utility>

#include "schema/contract/contract_guard.hpp"
#include "stages/canary/canary_scopes.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/guard/guard_impl.hpp"

namespace driftgate::stages {
namespace {

schema::Result<const schema::Clause*> find_clause(const schema::Contract& contract,
                                                  const std::string& address) {
  const auto found = std::ranges::find_if(
      contract.clauses, [&](const schema::Clause& clause) { return clause.address() == address; });
  if (found != contract.clauses.end()) return &*found;
  return schema::fail(schema::ErrorCode::invalid_argument,
                      "the contract " + contract.name + " has no clause " + address + " for its guard");
}

/// The smallest of the limits that the clause states: `max` as it stands, the others from what was promoted.
double limit_of(const schema::Limits& limits, double promoted_upper) {
  double limit = HUGE_VAL;
  if (limits.max) limit = *limits.max;
  if (limits.max_ratio) limit = std::min(limit, *limits.max_ratio * promoted_upper);
  if (limits.max_delta) limit = std::min(limit, *limits.max_delta + promoted_upper);
  return limit;
}

schema::Result<void> add_rates(const schema::Contract& contract, const Promoted& promoted,
                               std::vector<WatchPlan>& plans) {
  for (const PromotedRate& rate : promoted.rates) {
    const schema::Clause* const clause = TRY(find_clause(contract, rate.clause));
    WatchPlan plan{.clause = *clause, .where = rate.where, .role = rate.role, .thresholds_ms = {}};
    plan.promoted_keys = rate.keys;
    plan.promoted_periods = rate.periods;
    plan.promoted_failed = rate.failed;
    plan.promoted_upper = rate.upper;
    plan.limit = limit_of(clause->limits, plan.promoted_upper);
    if (plan.limit < 1) plans.push_back(std::move(plan));
  }
  return {};
}

schema::Result<void> add_latencies(const schema::Contract& contract, const Promoted& promoted,
                                   std::vector<WatchPlan>& plans) {
  for (const PromotedLatency& latency : promoted.latencies) {
    const schema::Clause* const clause = TRY(find_clause(contract, latency.clause));
    const auto& subject = std::get<schema::MetricSubject>(clause->subject);
    const auto quantile = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
    if (!quantile) continue;
    WatchPlan plan{.clause = *clause, .where = latency.where, .role = latency.role, .thresholds_ms = {}};
    plan.limit = 1 - *quantile;
    for (const auto& [stratum, upper_ms] : latency.upper_ms) {
      const double threshold = limit_of(clause->limits, upper_ms);
      if (std::isfinite(threshold)) plan.thresholds_ms[stratum] = threshold;
    }
    if (!plan.thresholds_ms.empty()) plans.push_back(std::move(plan));
  }
  return {};
}

double whole_weight(const WatchPlan& plan) {
  return plan.where.empty() ? harm_parts(plan.clause.severity) : 0;
}

/// What the tests on all traffic, on slices, the probes and the tests on rescored answers have of the false
/// alarms, each 0 if there are none.
struct Parts {
  double whole = 0, slices = 0, probes = 0, rescoring = 0;
};
Parts parts_of(const schema::Contract& contract, const std::vector<WatchPlan>& plans) {
  const auto is_slice = [](const WatchPlan& plan) { return !plan.where.empty(); };
  const auto slices = std::ranges::count_if(plans, is_slice);
  Parts parts;
  if (static_cast<std::size_t>(slices) < plans.size()) parts.whole = kWholeShare;
  if (slices > 0) parts.slices = kSliceShare;
  if (contract.guard && contract.guard->probes.prompts > 0) parts.probes = kProbeShare;
  const bool rescores = contract.guard && contract.guard->rescoring;
  if (rescores && !schema::rescored_clauses(contract).empty()) parts.rescoring = kRescoringShare;
  const double sum = parts.whole + parts.slices + parts.probes + parts.rescoring;
  if (sum <= 0) return {};
  return {parts.whole / sum, parts.slices / sum, parts.probes / sum, parts.rescoring / sum};
}

}  // namespace

schema::Result<GuardPlans> plan_guard(const schema::Contract& contract, const Promoted& promoted) {
  std::vector<WatchPlan> plans;
  TRY(add_rates(contract, promoted, plans));
  TRY(add_latencies(contract, promoted, plans));
  double weights = 0;
  for (const WatchPlan& plan : plans) weights += whole_weight(plan);
  const auto slices = static_cast<double>(
      std::ranges::count_if(plans, [](const WatchPlan& plan) { return !plan.where.empty(); }));
  const Parts parts = parts_of(contract, plans);
  for (WatchPlan& plan : plans) {
    plan.share = plan.where.empty() ? parts.whole * whole_weight(plan) / weights : parts.slices / slices;
  }
  return GuardPlans{std::move(plans), parts.probes, parts.rescoring};
}

}  // namespace driftgate::stages
