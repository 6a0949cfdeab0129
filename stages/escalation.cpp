#include "stages/escalation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

bool slice_matches(const schema::EscalationRule& rule, const schema::SliceWhere& where) {
  if (rule.any_slice) return true;
  return rule.slice ? *rule.slice == where : where.empty();
}

bool rule_matches(const schema::EscalationRule& rule, schema::Stage stage,
                  const schema::ClauseVerdict& verdict) {
  // On all traffic there is no slice to route away.
  if (rule.action == schema::Action::route_slice && verdict.where.empty()) return false;
  return address_matches(rule.match, verdict.clause) && (!rule.stage || *rule.stage == stage) &&
         (!rule.severity || *rule.severity == verdict.severity) && slice_matches(rule, verdict.where);
}

bool is_beside(schema::Action action) {
  return action <= schema::Action::sample;
}

EscalationOrder begin_order(const schema::ClauseVerdict& verdict, schema::Action action, std::string rule) {
  const bool blind = verdict.verdict == schema::Verdict::error;
  EscalationOrder order{action, verdict.clause, verdict.where, std::move(rule), {}};
  order.reason = fmt::format("{}{} {}: {} ({}): {}", verdict.clause, on_slice(verdict.where),
                             blind ? "cannot be seen" : "is violated", schema::to_string(action), order.rule,
                             verdict.message);
  return order;
}

std::string rule_text(const schema::EscalationRule& rule) {
  return fmt::format("rule {} → {}", rule.match, schema::to_string(rule.action));
}

EscalationOrder order_for(const schema::Escalation& policy, schema::Stage stage,
                          const schema::ClauseVerdict& verdict) {
  const schema::EscalationRule* strongest = nullptr;
  for (const schema::EscalationRule& rule : policy.rules) {
    if (!rule_matches(rule, stage, verdict)) continue;
    if (strongest == nullptr || rule.action > strongest->action) strongest = &rule;
  }
  if (strongest != nullptr) return begin_order(verdict, strongest->action, rule_text(*strongest));
  if (verdict.verdict == schema::Verdict::error)
    return begin_order(verdict, schema::Action::freeze, "blind: freeze");
  const schema::Action action =
      verdict.severity == schema::Severity::hard ? policy.hard_default : policy.soft_default;
  return begin_order(
      verdict, action,
      fmt::format("default of {} → {}", schema::to_string(verdict.severity), schema::to_string(action)));
}

/// Orders that stand beside the strongest one of the same verdict.
void add_beside(const schema::Escalation& policy, schema::Stage stage, const schema::ClauseVerdict& verdict,
                const EscalationOrder& strongest, std::vector<EscalationOrder>& beside) {
  std::set<schema::Action> listed;
  if (is_beside(strongest.action)) {
    beside.push_back(strongest);
    listed.insert(strongest.action);
  }
  for (const schema::EscalationRule& rule : policy.rules) {
    if (!is_beside(rule.action) || !rule_matches(rule, stage, verdict)) continue;
    if (listed.insert(rule.action).second)
      beside.push_back(begin_order(verdict, rule.action, rule_text(rule)));
  }
}

}  // namespace

bool address_matches(std::string_view match, std::string_view address) {
  if (match.ends_with(".*")) return address.starts_with(match.substr(0, match.size() - 1));
  return match == address;
}

EscalationDecision escalate(const schema::Escalation& policy, schema::Stage stage,
                            const std::vector<schema::ClauseVerdict>& verdicts) {
  EscalationDecision decision;
  for (const schema::ClauseVerdict& verdict : verdicts) {
    const bool blind =
        verdict.verdict == schema::Verdict::error && verdict.clause.starts_with("observability.");
    if (verdict.verdict != schema::Verdict::violated && !blind) continue;
    decision.orders.push_back(order_for(policy, stage, verdict));
    add_beside(policy, stage, verdict, decision.orders.back(), decision.beside);
  }
  if (decision.orders.empty()) return decision;
  std::ranges::stable_sort(decision.orders, std::ranges::greater{}, &EscalationOrder::action);
  const EscalationOrder& strongest = decision.orders.front();
  decision.acted = true;
  decision.action = strongest.action;
  decision.clause = strongest.clause;
  decision.where = strongest.where;
  decision.rule = strongest.rule;
  decision.reason = strongest.reason;
  return decision;
}

}  // namespace driftgate::stages
