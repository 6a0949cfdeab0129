#pragma once

#include <string>
#include <vector>

#include "schema/contract.hpp"
#include "schema/error.hpp"
#include "schema/verdict.hpp"

namespace driftgate::stages {

/// What the policy Π orders.
struct EscalationDecision {
  schema::Action action = schema::Action::log;
  bool acted = false;  ///< without a violated verdict or a blind O clause nothing is ordered
  std::string clause;  ///< address of the verdict that decided it
  schema::SliceWhere where;
  std::string rule;    ///< "rule runtime.ttft → step_back" or "default of hard → rollback"
  std::string reason;  ///< a plain sentence
};

/// Applies Π to the violated verdicts: of all matching rules the strongest action wins, what no rule
/// matches gets the default of its severity, and over all verdicts the strongest wins (pipeline.md,
/// section 4). An O clause in error (telemetry is absent) matches rules as well; without one it freezes,
/// since what cannot be seen is no proof of harm. Actions that are not carried out here (notify, sample,
/// route_slice, fallback, block) are refused when a contract is registered; meeting one is an Error
/// `internal`.
[[nodiscard]] schema::Result<EscalationDecision> escalate(const schema::Escalation& policy,
                                                          schema::Stage stage,
                                                          const std::vector<schema::ClauseVerdict>& verdicts);

/// The actions that `escalate` may return: log, freeze, step_back, rollback.
[[nodiscard]] bool carried_out(schema::Action action);

}  // namespace driftgate::stages
