#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schema/contract/contract_guard.hpp"
#include "schema/contract/contract_parse.hpp"

namespace driftgate::schema::detail {
namespace {

constexpr std::array<std::string_view, 9> kActions{
    "log", "notify", "sample", "freeze", "step_back", "route_slice", "fallback", "rollback", "block"};
constexpr std::array<std::string_view, 2> kSeverities{"hard", "soft"};
/// The stages in their order, and the guard, which is none.
constexpr std::array<std::string_view, kStageCount + 1> kPlaces{"offline-numeric", "statistical-slice",
                                                                "shadow-runtime", "canary", "guard"};

std::optional<Action> read_action(const Cursor& at, const Contract& contract) {
  const auto index = read_choice(at, kActions);
  if (!index) return std::nullopt;
  const auto action = static_cast<Action>(*index);
  const bool needs_fallback = action == Action::fallback || action == Action::route_slice;
  if (needs_fallback && contract.fallback_kernel.empty()) {
    at.refuse(fmt::format("the action {} needs a fallback kernel; name one under kernels.fallback",
                          to_string(action)));
    return std::nullopt;
  }
  return action;
}

bool matches(std::string_view match, const Clause& clause) {
  if (match.ends_with(".*")) return match.substr(0, match.size() - 2) == to_string(clause.family);
  return match == clause.address();
}

// Records a fault when the rule can never match anything.
void check_match(const Cursor& at, const EscalationRule& rule, const Contract& contract) {
  std::vector<std::string> addresses;
  StageSet stages = 0;
  bool severity = false, found = false, watched = false;
  for (const Clause& clause : contract.clauses) {
    addresses.push_back(clause.address());
    if (!matches(rule.match, clause)) continue;
    found = true;
    // A clause with a fault of its own has no stages yet; one fault is enough.
    stages = static_cast<StageSet>(stages | (clause.stages == 0 ? 0xFU : clause.stages));
    severity = severity || !rule.severity || clause.severity == *rule.severity;
    const bool rescored = contract.guard && contract.guard->rescoring && is_rescored(clause, contract);
    watched = watched || is_watched(clause) || rescored || clause.stages == 0;
  }
  for (const Family family :
       {Family::numerical, Family::statistical, Family::runtime, Family::observability}) {
    addresses.push_back(std::string(to_string(family)) + ".*");
  }
  const std::vector<std::string_view> names(addresses.begin(), addresses.end());
  if (!found) {
    at.refuse(fmt::format("\"{}\" matches no clause of this contract{}", rule.match,
                          allowed_names(rule.match, names)));
  } else if (rule.stage && (stages & stage_bit(*rule.stage)) == 0) {
    at.refuse(fmt::format("\"{}\" is not decided in {}, so the rule matches nothing", rule.match,
                          to_string(*rule.stage)));
  } else if (rule.guard && !contract.guard) {
    at.refuse("the contract has no guard, so the rule matches nothing; add guard: {} or remove \"stage\"");
  } else if (rule.guard && !watched) {
    at.refuse(fmt::format("\"{}\" is not tested in the guard, so the rule matches nothing", rule.match));
  } else if (!severity) {
    at.refuse(fmt::format("\"{}\" has no {} clause, so the rule matches nothing", rule.match,
                          to_string(*rule.severity)));
  }
}

void parse_rule_slice(const Cursor& at, EscalationRule& rule, const Contract& contract) {
  if (at.node.kind == DocumentNode::Kind::text && at.node.text == "any") {
    rule.any_slice = true;
    return;
  }
  if (at.node.kind != DocumentNode::Kind::mapping)
    return at.refuse_kind("any, or a mapping such as {language: de}");
  rule.slice = read_where(at, contract.slices.dimensions);
}

// A rule with a slice makes a canary watch it; elsewhere the clause must name slices itself.
void check_slice(const Cursor& at, const EscalationRule& rule, const Contract& contract) {
  bool found = false;
  for (const Clause& clause : contract.clauses) {
    if (!matches(rule.match, clause)) continue;
    const bool signal = std::holds_alternative<SignalSubject>(clause.subject);
    const bool watched = (clause.stages & stage_bit(Stage::canary)) != 0 && !signal;
    found = found || watched || !clause.slices.empty() || clause.stages == 0;
  }
  if (found) return;
  at.refuse(fmt::format(
      "\"{}\" is not decided on slices, so the rule matches nothing there; remove \"slice\"", rule.match));
}

void parse_rule(const Cursor& at, Contract& contract) {
  EscalationRule rule;
  rule.position = at.node.position;
  Fields fields(at, "an escalation rule");
  const auto match = fields.need("match");
  const auto action = fields.need("action");
  if (const auto stage = fields.find("stage")) {
    const auto index = read_choice(*stage, kPlaces);
    rule.guard = index == kStageCount;
    if (index && !rule.guard) rule.stage = static_cast<Stage>(*index);
  }
  if (const auto severity = fields.find("severity")) {
    if (const auto index = read_choice(*severity, kSeverities)) rule.severity = static_cast<Severity>(*index);
  }
  const auto slice = fields.find("slice");
  if (slice) parse_rule_slice(*slice, rule, contract);
  fields.finish();
  if (match) {
    rule.match = read_text(*match, 200).value_or("");
    if (!rule.match.empty()) check_match(*match, rule, contract);
  }
  if (action) rule.action = read_action(*action, contract).value_or(Action::log);
  // `any` also matches the whole, so that only route_slice, which needs a slice, could be in vain there.
  if (slice && !rule.match.empty() && (rule.slice || rule.action == Action::route_slice))
    check_slice(*slice, rule, contract);
  if (action && rule.action == Action::route_slice && !slice) {
    action->refuse(
        "route_slice sends the violating slices away and needs some: add slice: any, or a slice such "
        "as {language: de}");
  }
  const bool of_ramp =
      rule.action == Action::sample || rule.action == Action::freeze || rule.action == Action::step_back;
  if (action && rule.guard && of_ramp) {
    action->refuse(
        fmt::format("{} changes a ramp, and the guard has none; allowed there: log, notify, "
                    "route_slice, fallback, rollback, block",
                    to_string(rule.action)));
  }
  contract.escalation.rules.push_back(std::move(rule));
}

}  // namespace

void parse_escalation(Fields& root, Contract& contract) {
  const auto at = root.find("escalation");
  if (!at) return;
  Escalation& escalation = contract.escalation;
  Fields fields(*at, "escalation");
  if (const auto rules = fields.find("rules")) {
    read_list(*rules, kMaxRules, [&](const Cursor& item) { parse_rule(item, contract); });
  }
  if (const auto defaults = fields.find("defaults")) {
    Fields inner(*defaults, "escalation.defaults");
    const auto action = [&](const Cursor& c) -> std::optional<Action> {
      const auto read = read_action(c, contract);
      if (read != Action::route_slice) return read;
      c.refuse(
          "a default also answers violations of all traffic, which has no slice; write a rule with slice: "
          "any");
      return std::nullopt;
    };
    inner.take("hard", escalation.hard_default, action);
    inner.take("soft", escalation.soft_default, action);
    inner.finish();
  }
  if (const auto recovery = fields.find("recovery")) {
    Fields inner(*recovery, "escalation.recovery");
    inner.take("clean_windows", escalation.recovery.clean_windows,
               [](const Cursor& c) { return read_count(c, 1, 1'000'000); });
    inner.take("min_dwell", escalation.recovery.min_dwell_ms,
               [](const Cursor& c) { return read_duration_ms(c); });
    inner.finish();
  }
  fields.finish();
}

}  // namespace driftgate::schema::detail
