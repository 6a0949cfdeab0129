#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/change.hpp"
#include "daemon/pipeline/requests/fallback.hpp"

// The canary's ladder: what a decision of its tests, or an order of the escalation policy, changes about the
// route and the promotion. Pure; the canary's tests must be open (Live::canary).
namespace driftgate::pipeline::machine {

/// A share of users to go to. `decision`: what slices and copies it wants beside the share; null leaves them.
struct CanaryStep {
  std::uint32_t step = 0;  ///< the number of steps is the bake
  std::uint32_t share_bp = 0;
  std::string reason{};
  const stages::CanaryDecision* decision = nullptr;
};
/// The share is desired; the step begins when it was read back.
[[nodiscard]] Change go_to_step(const Facts& facts, const CanaryStep& step, Change with = {});
/// The share of a step was read back and recorded: its soak begins. `canary` is the memory of the tests after
/// it.
[[nodiscard]] Change begin_step(const Facts& facts, const std::string& canary);

/// What a decision leads to. `with`: what is recorded in the same transaction, with the canary's progress
/// after the decision. `block_id` is used when a block is ordered.
[[nodiscard]] Change decide(const Facts& facts, const stages::CanaryDecision& decision,
                            const std::string& block_id, Change with);

/// The load on the fallback engine when the decision sends more traffic to it; nothing when it does not.
[[nodiscard]] std::optional<CapacityFacts> asked_of_fallback(const Facts& facts,
                                                             const stages::CanaryDecision& decision);
/// The fallback engine cannot take the traffic: the next stronger action that can be carried out is rollback,
/// since sending everything there takes more than a part.
void roll_back_instead(stages::CanaryDecision& decision, const Capacity& capacity);

/// Entries of the orders beside a decision, each recorded once: the check of the fallback engine, notices,
/// recoveries.
[[nodiscard]] std::vector<schema::EntryDraft> order_entries(const Facts& facts,
                                                            const stages::CanaryDecision& decision,
                                                            const std::optional<Capacity>& capacity);
/// Of a stage of fixed data: nothing is routed in it, so that all orders but the end are evidence only.
[[nodiscard]] std::vector<schema::EntryDraft> order_entries(const Facts& facts,
                                                            const stages::EscalationDecision& order);

}  // namespace driftgate::pipeline::machine
