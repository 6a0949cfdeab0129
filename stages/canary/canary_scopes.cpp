#include "stages/canary/canary_scopes.hpp"

#include <algorithm>

#include "stages/canary/traffic_rules.hpp"
#include "stages/escalation.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;
using schema::SliceRole;

schema::Result<void> check_clause(const schema::Clause& clause) {
  const auto refuse = [&](const std::string& why) {
    return schema::fail(schema::ErrorCode::unsupported, clause.address() + ": " + why);
  };
  const auto metric = traffic_metric(clause);
  if (!metric || (*metric != Metric::error_rate && !is_latency(*metric))) {
    return refuse(subject_text(clause) +
                  " cannot be evaluated continuously in a canary: take canary out of its stages");
  }
  const bool limited = clause.limits.max || clause.limits.max_ratio || clause.limits.max_delta;
  if (!limited) return refuse("a canary decides by max, max_ratio or max_delta only");
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  const bool known = subject.aggregate && (schema::quantile_of(*subject.aggregate) ||
                                           *subject.aggregate == schema::Aggregate::mean);
  if (is_latency(*metric) && !known) {
    return refuse("a canary decides latency by its mean or a quantile (p50, p90, p95, p99, p99_9)");
  }
  return {};
}

bool names(const schema::Clause& clause, SliceRole role) {
  return std::ranges::find(clause.slices, role) != clause.slices.end();
}

std::uint32_t tests_of(const schema::Clause& clause) {
  const schema::Limits& limits = clause.limits;
  return static_cast<std::uint32_t>(limits.max.has_value()) +
         static_cast<std::uint32_t>(limits.max_ratio.has_value()) +
         static_cast<std::uint32_t>(limits.max_delta.has_value());
}

void add(CanaryScopes& scopes, const schema::Clause& clause, const schema::SliceWhere& where,
         SliceRole role) {
  const bool there = std::ranges::any_of(scopes.planned, [&](const CanaryScope& scope) {
    return scope.clause.address() == clause.address() && scope.where == where;
  });
  if (!there) scopes.planned.push_back({clause, where, role, false});
}

bool matches_in_canary(const schema::EscalationRule& rule, const schema::Clause& clause) {
  return !rule.guard && (!rule.stage || *rule.stage == schema::Stage::canary) &&
         (!rule.severity || *rule.severity == clause.severity) &&
         address_matches(rule.match, clause.address());
}

/// What rules with a slice ask for beyond the clause's own slices. True when one says `slice: any`.
bool add_ruled(CanaryScopes& scopes, const schema::Clause& clause, const schema::Contract& contract) {
  bool any = false;
  for (const schema::EscalationRule& rule : contract.escalation.rules) {
    if (!matches_in_canary(rule, clause)) continue;
    if (rule.slice) add(scopes, clause, *rule.slice, SliceRole::monitored);
    if (!rule.any_slice) continue;
    any = true;
    for (const auto& where : contract.slices.critical) add(scopes, clause, where, SliceRole::monitored);
  }
  return any;
}

}  // namespace

schema::Result<CanaryScopes> canary_scopes(const schema::Contract& contract) {
  CanaryScopes scopes;
  scopes.dimensions = contract.slices.dimensions;
  scopes.critical = contract.slices.critical;
  for (const schema::Clause& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(schema::Stage::canary)) == 0) continue;
    if (std::holds_alternative<schema::SignalSubject>(clause.subject)) {
      scopes.signals.push_back(clause);
      continue;
    }
    TRY(check_clause(clause));
    if (names(clause, SliceRole::critical) && !contract.slices.critical.empty()) {
      for (const auto& where : contract.slices.critical) add(scopes, clause, where, SliceRole::critical);
    } else {
      add(scopes, clause, {}, SliceRole::corpus);
    }
    const bool routed =
        std::ranges::any_of(contract.escalation.rules, [&](const schema::EscalationRule& rule) {
          return rule.action == schema::Action::route_slice && matches_in_canary(rule, clause);
        });
    if (routed && scopes.planned.back().where.empty()) scopes.planned.back().defers_to_slices = true;
    const bool any = add_ruled(scopes, clause, contract);
    if ((any || names(clause, SliceRole::monitored)) && !scopes.dimensions.empty())
      scopes.found.push_back(clause);
  }
  for (const CanaryScope& scope : scopes.planned) {
    if (scope.where.empty()) {
      scopes.whole_parts += harm_parts(scope.clause.severity) * tests_of(scope.clause);
    } else {
      scopes.slice_tests += tests_of(scope.clause);
    }
  }
  for (const schema::Clause& clause : scopes.found)
    scopes.slice_tests += kMaxWatchedSlices * tests_of(clause);
  return scopes;
}

std::uint32_t share_of_step(const schema::CanaryPlan& plan, std::uint32_t step) {
  const std::size_t index = std::min<std::size_t>(step, plan.steps.size() - 1);
  return std::min(plan.steps[index].share_bp, kFullBp - std::min(plan.holdback_bp, kFullBp));
}

}  // namespace driftgate::stages
