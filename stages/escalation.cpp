#include "stages/escalation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

bool address_matches(const std::string& pattern, const std::string& address) {
  if (pattern.ends_with(".*"))
    return address.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return pattern == address;
}

bool slice_matches(const schema::EscalationRule& rule, const schema::SliceWhere& where) {
  if (rule.any_slice) return true;
  return rule.slice ? *rule.slice == where : where.empty();
}

bool rule_matches(const schema::EscalationRule& rule, schema::Stage stage,
                  const schema::ClauseVerdict& verdict) {
  return address_matches(rule.match, verdict.clause) && (!rule.stage || *rule.stage == stage) &&
         (!rule.severity || *rule.severity == verdict.severity) && slice_matches(rule, verdict.where);
}

EscalationDecision order_for(const schema::Escalation& policy, schema::Stage stage,
                             const schema::ClauseVerdict& verdict) {
  const schema::EscalationRule* strongest = nullptr;
  for (const schema::EscalationRule& rule : policy.rules) {
    if (!rule_matches(rule, stage, verdict)) continue;
    if (strongest == nullptr || rule.action > strongest->action) strongest = &rule;
  }
  EscalationDecision decision;
  decision.acted = true;
  decision.clause = verdict.clause;
  decision.where = verdict.where;
  if (strongest != nullptr) {
    decision.action = strongest->action;
    decision.rule = fmt::format("rule {} → {}", strongest->match, schema::to_string(decision.action));
  } else if (verdict.verdict == schema::Verdict::error) {
    decision.action = schema::Action::freeze;
    decision.rule = "blind: freeze";
  } else {
    decision.action = verdict.severity == schema::Severity::hard ? policy.hard_default : policy.soft_default;
    decision.rule = fmt::format("default of {} → {}", schema::to_string(verdict.severity),
                                schema::to_string(decision.action));
  }
  const bool blind = verdict.verdict == schema::Verdict::error;
  decision.reason = fmt::format("{}{} {}: {} ({}): {}", verdict.clause, on_slice(verdict.where),
                                blind ? "cannot be seen" : "is violated", schema::to_string(decision.action),
                                decision.rule, verdict.message);
  return decision;
}

}  // namespace

bool carried_out(schema::Action action) {
  using enum schema::Action;
  return action == log || action == freeze || action == step_back || action == rollback;
}

schema::Result<EscalationDecision> escalate(const schema::Escalation& policy, schema::Stage stage,
                                            const std::vector<schema::ClauseVerdict>& verdicts) {
  EscalationDecision strongest;
  for (const schema::ClauseVerdict& verdict : verdicts) {
    const bool blind =
        verdict.verdict == schema::Verdict::error && verdict.clause.starts_with("observability.");
    if (verdict.verdict != schema::Verdict::violated && !blind) continue;
    EscalationDecision decision = order_for(policy, stage, verdict);
    if (!carried_out(decision.action)) {
      return schema::fail(
          schema::ErrorCode::internal,
          fmt::format("the contract orders '{}' for {}, which is not carried out by this version and "
                      "should have been refused when the contract was registered",
                      schema::to_string(decision.action), verdict.clause));
    }
    if (!strongest.acted || decision.action > strongest.action) strongest = std::move(decision);
  }
  return strongest;
}

}  // namespace driftgate::stages
