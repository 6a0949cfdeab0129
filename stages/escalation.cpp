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

/// Where verdicts are escalated: a stage, or the guard.
struct Place {
  std::optional<schema::Stage> stage;

  [[nodiscard]] bool is_of(const schema::EscalationRule& rule) const {
    if (!rule.stage && !rule.guard) return true;
    return stage ? rule.stage == stage : rule.guard;
  }
  /// What an action comes to here.
  [[nodiscard]] schema::Action carried_out(schema::Action action) const {
    const bool of_ramp = action == schema::Action::sample || action == schema::Action::freeze ||
                         action == schema::Action::step_back;
    return !stage && of_ramp ? schema::Action::notify : action;
  }
};

bool rule_matches(const schema::EscalationRule& rule, const Place& place,
                  const schema::ClauseVerdict& verdict) {
  // On all traffic there is no slice to route away.
  if (rule.action == schema::Action::route_slice && verdict.where.empty()) return false;
  return address_matches(rule.match, verdict.clause) && place.is_of(rule) &&
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

EscalationOrder order_for(const schema::Escalation& policy, const Place& place,
                          const schema::ClauseVerdict& verdict) {
  const schema::EscalationRule* strongest = nullptr;
  for (const schema::EscalationRule& rule : policy.rules) {
    if (!rule_matches(rule, place, verdict)) continue;
    if (strongest == nullptr || rule.action > strongest->action) strongest = &rule;
  }
  if (strongest != nullptr)
    return begin_order(verdict, place.carried_out(strongest->action), rule_text(*strongest));
  if (verdict.verdict == schema::Verdict::error) {
    return begin_order(verdict, place.carried_out(schema::Action::freeze),
                       place.stage ? "blind: freeze" : "blind: notify");
  }
  const schema::Action action =
      verdict.severity == schema::Severity::hard ? policy.hard_default : policy.soft_default;
  return begin_order(
      verdict, place.carried_out(action),
      fmt::format("default of {} → {}", schema::to_string(verdict.severity), schema::to_string(action)));
}

/// Orders that stand beside the strongest one of the same verdict.
void add_beside(const schema::Escalation& policy, const Place& place, const schema::ClauseVerdict& verdict,
                const EscalationOrder& strongest, std::vector<EscalationOrder>& beside) {
  std::set<schema::Action> listed;
  if (is_beside(strongest.action)) {
    beside.push_back(strongest);
    listed.insert(strongest.action);
  }
  for (const schema::EscalationRule& rule : policy.rules) {
    if (!is_beside(rule.action) || !rule_matches(rule, place, verdict)) continue;
    const schema::Action action = place.carried_out(rule.action);
    if (listed.insert(action).second) beside.push_back(begin_order(verdict, action, rule_text(rule)));
  }
}

EscalationDecision escalate_at(const schema::Escalation& policy, const Place& place,
                               const std::vector<schema::ClauseVerdict>& verdicts) {
  EscalationDecision decision;
  for (const schema::ClauseVerdict& verdict : verdicts) {
    const bool blind =
        verdict.verdict == schema::Verdict::error && verdict.clause.starts_with("observability.");
    if (verdict.verdict != schema::Verdict::violated && !blind) continue;
    decision.orders.push_back(order_for(policy, place, verdict));
    add_beside(policy, place, verdict, decision.orders.back(), decision.beside);
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

}  // namespace

bool address_matches(std::string_view match, std::string_view address) {
  if (match.ends_with(".*")) return address.starts_with(match.substr(0, match.size() - 1));
  return match == address;
}

EscalationDecision escalate(const schema::Escalation& policy, schema::Stage stage,
                            const std::vector<schema::ClauseVerdict>& verdicts) {
  return escalate_at(policy, {stage}, verdicts);
}

EscalationDecision escalate_in_guard(const schema::Escalation& policy,
                                     const std::vector<schema::ClauseVerdict>& verdicts) {
  return escalate_at(policy, {std::nullopt}, verdicts);
}

}  // namespace driftgate::stages
