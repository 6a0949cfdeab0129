#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/context.hpp"
#include "daemon/pipeline/effects.hpp"
#include "daemon/pipeline/guard/live_guard.hpp"
#include "daemon/route/control/telemetry.hpp"

// The guard after a promotion (docs/guard.md): armed when it succeeds, until another version serves.
// Everything here runs on the loop but for what is looked at beside it.
namespace driftgate::pipeline {

/// Makes `change`, which completes the promotion, arm a guard; nothing where its contract has none.
void arm_guard(Context& context, Live& live, Change& change);
/// Holds the model's armed guard in memory as it is stored, or none.
void load_guard(Context& context, const std::string& model);
/// Timers: looks at engines that are due, orders that wait, guards that could not be read.
void tick_guards(Context& context);

/// What a guard has counted of one window, to be committed with it.
struct GuardStep {
  std::string model;
  std::shared_ptr<store::GuardRow> row;  ///< as it will be stored
  GuardOrders orders;
  Work rows;
  std::shared_ptr<const DecisionFigures> figures;
};
/// Counts what the guarded version served in this window. Nothing without a guard, without requests of it, or
/// while an order waits.
[[nodiscard]] std::optional<GuardStep> guard_window(Context& context, const route::Window& window);
/// The step was committed, or not: then the guard is read from the store again, since its tests went ahead.
void finish_guard_window(Context& context, const GuardStep& step, bool committed);

/// What a look at an engine, beside the loop, has brought back.
void use_guard_look(Context& context, const UseGuardLook& done);

/// Timers of rescoring: which answers are kept, and when the next one is scored again.
void tick_rescoring(Context& context, LiveGuard& guard);
/// What a look at the kept answers has brought back.
void use_rescored(Context& context, const UseRescored& done);
/// Looks, beside the loop, at what an order of the model's guard needs.
void act_on_guard(Context& context, const std::string& model);
/// Carries the order out as far as that allows.
void use_guard_facts(Context& context, const UseGuardFacts& found);
/// What the guard sent to the fallback kernel comes back; nothing when it sent nothing. For a hold that was
/// lifted.
void give_back(Context& context, const std::string& model, const std::string& actor,
               const std::string& reason);

/// Writes what guards have seen and is not stored yet, in one transaction: hundreds of them look at their
/// engines several times a minute each. At the end of each tick, so that a crash loses the looks since the
/// tick before, as if they had not been made.
void store_guards(Context& context);

/// Writes the guard's row with entries; into memory when the COMMIT succeeded.
bool commit_guard(Context& context, LiveGuard& guard, store::GuardRow row,
                  const std::vector<schema::EntryDraft>& entries);
/// The entries of alarms on clauses that were raised and have cleared; `what` is "traffic" or "rescoring".
[[nodiscard]] std::vector<schema::EntryDraft> clause_alarms(const Context& context, const LiveGuard& guard,
                                                            const stages::GuardDecision& decision,
                                                            std::string_view what);
/// What is to be done about them: the strongest order, with the slices of all that send slices away. Nothing
/// where it is a notice at most.
[[nodiscard]] std::optional<GuardOrder> order_of(const stages::EscalationDecision& decision,
                                                 std::string_view what);

/// Entries of a guard have its model, checkpoint and contract as subject, and no promotion: a promotion's
/// bundle ends where it succeeded.
[[nodiscard]] schema::EntryDraft guard_entry(const Context& context, const LiveGuard& guard,
                                             schema::EvidenceKind kind, schema::EntryValue::Object body);
/// The first of these items that have room in one entry beside its other members. How long a list is depends
/// on contracts and on what engines tell, and an entry that is too long would undo the transaction that it is
/// in.
[[nodiscard]] schema::EntryValue::Array what_fits(schema::EntryValue::Array items);

}  // namespace driftgate::pipeline
