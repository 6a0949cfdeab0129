#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"

namespace driftgate::stages {

/// What the escalation rules demand for one verdict.
struct EscalationOrder {
  schema::Action action = schema::Action::log;
  std::string clause;        ///< address of the clause
  schema::SliceWhere where;  ///< the verdict's slice; empty: all traffic or the whole corpus
  std::string rule;          ///< "rule runtime.ttft → step_back", "default of hard → rollback"
  std::string reason;        ///< one sentence with the message of the verdict
};

/// What the escalation rules demand for a set of verdicts. `action`, `clause`, `where`, `rule` and `reason`
/// are those of the strongest order.
struct EscalationDecision {
  schema::Action action = schema::Action::log;
  bool acted = false;  ///< there is an order
  std::string clause;
  schema::SliceWhere where;
  std::string rule;
  std::string reason;
  std::vector<EscalationOrder> orders;  ///< one for each verdict that is acted on, the strongest first
  /// The log, notify and sample orders of all matching rules. They change no share of traffic, so that they
  /// are carried out in addition to a stronger order.
  std::vector<EscalationOrder> beside;
};

/// Applies the escalation rules to each violated verdict: of the rules that match, the one with the strongest
/// action applies; without one, the default of the verdict's severity does (docs/design/pipeline.md,
/// "Escalation ladder"). A rule with `route_slice` never matches a verdict on all traffic, which has no slice
/// to route. An observability clause in error, because its signal is absent, is matched by rules like a
/// violation; without a matching rule it freezes the ramp, since what cannot be seen is no proof of harm. All
/// other verdicts are ignored.
[[nodiscard]] EscalationDecision escalate(const schema::Escalation& policy, schema::Stage stage,
                                          const std::vector<schema::ClauseVerdict>& verdicts);
/// The same for verdicts of a guard, in which rules match that name the guard or no stage. There is no ramp
/// after a promotion: what only changes a ramp (sample, freeze, step_back) is a notice there (docs/guard.md,
/// "What an alarm does").
[[nodiscard]] EscalationDecision escalate_in_guard(const schema::Escalation& policy,
                                                   const std::vector<schema::ClauseVerdict>& verdicts);

/// Whether the `match` of a rule ("family.id" or "family.*") names the clause with this address.
[[nodiscard]] bool address_matches(std::string_view match, std::string_view address);

}  // namespace driftgate::stages
