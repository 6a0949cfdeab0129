#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"

namespace driftgate::stages {

/// What Π says to do about one clause on one slice.
struct EscalationOrder {
  schema::Action action = schema::Action::log;
  std::string clause;        ///< address of the verdict
  schema::SliceWhere where;  ///< its slice; empty = all traffic or the whole corpus
  std::string rule;          ///< "rule runtime.ttft → step_back" or "default of hard → rollback"
  std::string reason;        ///< a plain sentence
};

/// What the policy Π orders. The first five members are the strongest order.
struct EscalationDecision {
  schema::Action action = schema::Action::log;
  bool acted = false;  ///< without a violated verdict or a blind O clause nothing is ordered
  std::string clause;  ///< address of the verdict that decided it
  schema::SliceWhere where;
  std::string rule;
  std::string reason;
  std::vector<EscalationOrder> orders;  ///< one for each verdict that is acted on, strongest first
  /// log, notify and sample of every rule that matches: they change nobody's weight, so they are carried
  /// out beside a stronger order and not instead of it.
  std::vector<EscalationOrder> beside;
};

/// Applies Π to the violated verdicts: of all matching rules the strongest action wins, what no rule
/// matches gets the default of its severity, and over all verdicts the strongest is named
/// (docs/design/pipeline.md, "Escalation ladder"). Every verdict's own order is listed as well, since orders
/// on different slices are carried out together. `route_slice` needs a slice: a rule with it never matches a
/// verdict on all traffic, which so gets the next weaker match or its default. An O clause in error
/// (telemetry is absent) matches rules too; without one it freezes, since what cannot be seen is no proof of
/// harm.
[[nodiscard]] EscalationDecision escalate(const schema::Escalation& policy, schema::Stage stage,
                                          const std::vector<schema::ClauseVerdict>& verdicts);

/// Does a rule's `match` ("family.id" or "family.*") name this clause?
[[nodiscard]] bool address_matches(std::string_view match, std::string_view address);

}  // namespace driftgate::stages
