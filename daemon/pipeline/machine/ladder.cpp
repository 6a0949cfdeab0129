#include "daemon/pipeline/machine/ladder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/machine/canary_report.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/store/blobs.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline::machine {
namespace {

using schema::Verdict;
using stages::CanaryAction;
using stages::CanaryDecision;
using store::PromotionState;
using store::StageRunState;

constexpr const char* kMirrorChanges = "the mirrored share changes";

bool is_on_ladder(CanaryAction action) {
  return action == CanaryAction::route_slice || action == CanaryAction::restore_slice ||
         action == CanaryAction::fallback || action == CanaryAction::restore;
}

bool is_end(CanaryAction action) {
  return action == CanaryAction::rollback || action == CanaryAction::block ||
         action == CanaryAction::revert || action == CanaryAction::inconclusive;
}

/// `route` with the slices, traffic and mirroring that the decision wants beside the candidate's share.
route::ModelRoute with_orders(route::ModelRoute route, const Facts& facts, const CanaryDecision& decision) {
  route.slices.clear();
  for (const auto& where : decision.fallback_slices) route.slices.push_back({where, 0, true});
  route.all_to_fallback = decision.all_to_fallback;
  route.fallback.reset();
  if (route.all_to_fallback || !route.slices.empty()) route.fallback = arm(facts.live.fallback);
  route.mirror_bp = decision.sample ? facts.settings.sample_bp : 0;
  route.mirror_token_budget = decision.sample ? facts.settings.sample_token_budget : 0;
  return route;
}

/// Sets the route when a decision that leaves the share as it is changes the rest of it.
void reroute(Change& change, const Facts& facts, const CanaryDecision& decision, std::string reason) {
  if (with_orders(facts.model->desired, facts, decision) == facts.model->desired) return;
  set_route(change, with_orders(next_route(*facts.model), facts, decision), std::move(reason));
}

/// What every decision writes: the memory of the tests and the run's progress; the verdicts where they are
/// told.
void record_decision(Change& change, const Facts& facts, const CanaryDecision& decision,
                     std::optional<Verdict> verdict, bool ended = false) {
  change.canary = facts.live.canary->serialise();
  change.run = facts.live.run;
  change.progress->last_action = stages::to_string(decision.action);
  if (!verdict) return;
  change.verdicts = canary_conclusion(facts, *change.progress, decision, *verdict, *change.canary);
  change.verdicts->ended = ended;
}

/// The share stays as it is; a decision other than the last one is recorded, and where requests of slices and
/// copies go may change.
Change hold_share(const Facts& facts, const CanaryDecision& decision, Change change) {
  change.name = "canary window";
  const auto before = *change.progress;
  const bool on_ladder = is_on_ladder(decision.action);
  const bool freezes = decision.action == CanaryAction::freeze;
  const bool changed =
      on_ladder || (stages::to_string(decision.action) != before.last_action && (freezes || before.frozen));
  record_decision(change, facts, decision,
                  on_ladder ? std::optional(verdict_so_far(decision)) : std::nullopt);
  change.progress->frozen = freezes;
  if (changed) change.entries.push_back(decision_entry(facts, *change.progress, decision));
  reroute(change, facts, decision, on_ladder ? first_reason(decision) : std::string(kMirrorChanges));
  // The pending approval no longer applies. A hold for a route that is not read back yet keeps it.
  const bool unproven = decision.action == CanaryAction::hold && !decision.advance_proven;
  const bool waits = facts.live.row.state == PromotionState::awaiting_approval;
  if (!waits || !(freezes || on_ladder || unproven)) return change;
  change.progress->approval_digest.clear();
  change.row = facts.live.row;
  change.row->state = PromotionState::running;
  change.row->deadline_us.reset();
  change.row->reason = first_reason(decision);
  return change;
}

/// The request to the people who approve.
std::string approval_reason(const Facts& facts, const CanaryDecision& decision) {
  const auto next = static_cast<std::uint32_t>(facts.live.run.step) + 1;
  const auto steps = facts.live.contract->canary->steps.size();
  if (next > steps) return first_reason(decision);
  if (next == steps) return fmt::format("step {} waits for an approval to begin the bake", next);
  return fmt::format("step {} waits for an approval to go to {:.4g}%", next,
                     facts.live.canary->share_of_step(next) / 100.0);
}

/// All but an approval is met: ask for it, naming the evidence; ask anew when a verdict changed since.
Change ask_approval(const Facts& facts, const CanaryDecision& decision, Change change) {
  const auto basis = approval_basis(facts.live, decision);
  const auto digest = schema::sha256_digest(basis);
  const auto state = facts.live.row.state;
  if (state != PromotionState::running && digest == change.progress->approval_digest)
    return hold_share(facts, decision, std::move(change));
  change.name = "ask for approval";
  change.rows.emplace_back([basis, now_us = facts.now_us](store::Tx& tx, Entries&) -> schema::Result<void> {
    TRY(store::put_blob(tx, basis, "application/json", now_us));
    return {};
  });
  change.progress->approval_digest = digest;
  record_decision(change, facts, decision, verdict_so_far(decision));
  change.entries.push_back(decision_entry(facts, *change.progress, decision));
  reroute(change, facts, decision, kMirrorChanges);
  change.row = facts.live.row;
  if (state != PromotionState::paused) {
    change.row->state = PromotionState::awaiting_approval;
    change.row->deadline_us = facts.now_us + facts.live.contract->canary->approval_deadline_ms * 1'000;
  }
  change.row->reason = approval_reason(facts, decision);
  return change;
}

/// The bake is over: the candidate becomes the incumbent when the route was read back.
Change finish(const Facts& facts, const CanaryDecision& decision, Change change) {
  change.name = "finish canary";
  record_decision(change, facts, decision, Verdict::pass, true);
  change.entries.push_back(decision_entry(facts, *change.progress, decision));
  change.run->state = StageRunState::pass;
  change.run->ended_us = facts.now_us;
  change.run->report = schema::sha256_digest(change.verdicts->report_json);
  auto route = with_orders(next_route(*facts.model), facts, decision);
  route.mirror_bp = 0;
  route.incumbent = arm(facts.live.candidate);
  route.candidate.reset();
  route.candidate_bp = 0;
  route.stage_key.clear();
  set_route(change, std::move(route), "the candidate becomes the incumbent");
  change.row = facts.live.row;
  change.row->state = PromotionState::finalizing;
  change.row->reason = first_reason(decision);
  change.row->deadline_us.reset();
  return change;
}

/// Weight 0: harm (rejected, hold), silence (errored, hold), or no decision in time (inconclusive).
Change end_canary(const Facts& facts, const CanaryDecision& decision, const std::string& block_id,
                  Change change) {
  struct Ending {
    Verdict verdict;
    PromotionState target;
    StageRunState run;
  };
  const bool blocks = decision.action == CanaryAction::block;
  const bool harm = blocks || decision.action == CanaryAction::rollback;
  const bool silence = decision.action == CanaryAction::revert;
  const auto ending =
      harm      ? Ending{Verdict::violated, PromotionState::rejected, StageRunState::violated}
      : silence ? Ending{Verdict::error, PromotionState::errored, StageRunState::error}
                : Ending{Verdict::inconclusive, PromotionState::inconclusive, StageRunState::inconclusive};
  record_decision(change, facts, decision, ending.verdict, true);
  change.entries.push_back(decision_entry(facts, *change.progress, decision));
  if (blocks) change.block = {block_id, decision.escalation};
  auto outcome = figures(facts.live, *change.progress, decision);
  outcome["verdict"] = schema::to_string(ending.verdict);
  outcome["stage"] = facts.live.run.key.stage;
  outcome["why"] = first_reason(decision);
  const auto report = schema::sha256_digest(change.verdicts->report_json);
  return withdraw(facts,
                  {.target = ending.target,
                   .run_state = ending.run,
                   .reason = fmt::format("canary: {}", first_reason(decision)),
                   .hold = harm || silence,
                   .report = report,
                   .outcome = schema::canonical_json(outcome)},
                  std::move(change));
}

schema::EntryDraft order_entry(const Facts& facts, const stages::EscalationOrder& order,
                               std::string_view action) {
  return draft(facts, schema::EvidenceKind::escalation_decided, {},
               {{"action", action},
                {"ordered", schema::to_string(order.action)},
                {"clause", order.clause},
                {"slice", schema::slice_text(order.where)},
                {"rule", order.rule},
                {"reason", order.reason}});
}

schema::EntryDraft notice_entry(const Facts& facts, const stages::EscalationOrder& order) {
  auto entry = order_entry(facts, order, schema::to_string(order.action));
  entry.body["notify"] = order.action == schema::Action::notify;
  return entry;
}

}  // namespace

Change go_to_step(const Facts& facts, const CanaryStep& step, Change change) {
  const auto& live = facts.live;
  const bool begins = live.progress.phase.empty();
  const bool same_step = !begins && live.run.step == step.step && change.is_empty();
  auto route = next_route(*facts.model);
  // What an earlier promotion sent to its fallback ends where this one's canary begins.
  if (step.decision != nullptr || begins)
    route = with_orders(route, facts, step.decision ? *step.decision : CanaryDecision{});
  route.stage_key = live.run.key.text();
  route.seed = live.row.seed;
  route.candidate = arm(live.candidate);
  route.candidate_bp = step.share_bp;
  change.name = "go to canary step";
  if (!change.progress) change.progress = live.progress;
  if (!same_step) change.progress->phase = "applying";
  change.progress->share_bp = step.share_bp;
  change.progress->approval_digest.clear();
  change.run = live.run;
  change.run->step = step.step;
  if (live.canary && !change.canary) change.canary = live.canary->serialise();
  const auto steps = live.contract->canary->steps.size();
  set_route(change, std::move(route),
            step.step >= steps ? fmt::format("bake at {} bp", step.share_bp)
                               : fmt::format("step {} of {}: {} bp", step.step + 1, steps, step.share_bp));
  change.row = live.row;
  change.row->traffic = store::Traffic::live;
  if (change.row->state == PromotionState::awaiting_approval) change.row->state = PromotionState::running;
  if (change.row->state != PromotionState::paused) change.row->deadline_us.reset();
  change.row->reason = step.reason;
  return change;
}

Change begin_step(const Facts& facts, const std::string& canary) {
  Change change{
      .name = "begin canary step", .progress = facts.live.progress, .run = facts.live.run, .canary = canary};
  const auto steps = static_cast<std::int64_t>(facts.live.contract->canary->steps.size());
  change.progress->phase = change.run->step >= steps ? "baking" : "ramping";
  change.progress->keys_in_step = 0;
  change.run->step_started_us = facts.now_us;
  return change;
}

Change decide(const Facts& facts, const CanaryDecision& decision, const std::string& block_id,
              Change change) {
  if (approval_is_stale(facts.live, decision)) {
    auto asked = decision;
    asked.action = CanaryAction::wait_approval;
    asked.reasons.insert(asked.reasons.begin(), "A verdict changed after the approval: a new one is needed.");
    return ask_approval(facts, asked, std::move(change));
  }
  if (is_end(decision.action)) return end_canary(facts, decision, block_id, std::move(change));
  if (decision.action == CanaryAction::wait_approval) return ask_approval(facts, decision, std::move(change));
  if (decision.action == CanaryAction::finish) return finish(facts, decision, std::move(change));
  // At the same step only the route changes: its soak and its keys go on.
  const bool same_step = decision.next_step == static_cast<std::uint32_t>(facts.live.run.step);
  if (decision.action == CanaryAction::hold || decision.action == CanaryAction::freeze ||
      (is_on_ladder(decision.action) && same_step))
    return hold_share(facts, decision, std::move(change));
  record_decision(change, facts, decision, verdict_so_far(decision));
  change.progress->frozen = false;
  change.entries.push_back(decision_entry(facts, *change.progress, decision));
  return go_to_step(facts, {decision.next_step, decision.next_share_bp, first_reason(decision), &decision},
                    std::move(change));
}

std::optional<CapacityFacts> asked_of_fallback(const Facts& facts, const CanaryDecision& decision) {
  const auto& model = *facts.model;
  const bool all = decision.all_to_fallback && !model.desired.all_to_fallback;
  const bool more = std::ranges::any_of(decision.fallback_slices, [&](const schema::SliceWhere& where) {
    return std::ranges::none_of(model.desired.slices, [&](const auto& weight) {
      return weight.to_fallback && weight.where == where;
    });
  });
  if (is_end(decision.action) || (!all && !more)) return std::nullopt;
  CapacityFacts asked{.engine = facts.live.fallback.engine};
  if (decision.all_to_fallback) {
    asked.requests_per_second = model.rate.requests_per_second();
  } else {
    for (const auto& where : decision.fallback_slices)
      asked.requests_per_second += model.rate.requests_per_second(where);
    asked.requests_per_second = std::min(asked.requests_per_second, model.rate.requests_per_second());
  }
  return asked;
}

void roll_back_instead(CanaryDecision& decision, const Capacity& capacity) {
  decision.reasons.insert(
      decision.reasons.begin(),
      fmt::format(
          "{} was ordered ({}), but {}: the next stronger action that can be carried out is rollback.",
          stages::to_string(decision.action), decision.escalation.reason, capacity.text));
  decision.action = CanaryAction::rollback;
  decision.fallback_slices.clear();
  decision.all_to_fallback = false;
}

std::vector<schema::EntryDraft> order_entries(const Facts& facts, const CanaryDecision& decision,
                                              const std::optional<Capacity>& capacity) {
  std::vector<schema::EntryDraft> entries;
  if (capacity) {
    entries.push_back(draft(facts, schema::EvidenceKind::escalation_decided, {},
                            {{"action", "check_capacity"},
                             {"reason", capacity->text},
                             {"enough", capacity->enough},
                             {"capacity", capacity->body}}));
  }
  for (const auto& order : decision.notices) entries.push_back(notice_entry(facts, order));
  for (const auto& order : decision.recovered) entries.push_back(order_entry(facts, order, "recovered"));
  return entries;
}

std::vector<schema::EntryDraft> order_entries(const Facts& facts, const stages::EscalationDecision& order) {
  std::vector<schema::EntryDraft> entries;
  for (const auto& notice : order.beside) entries.push_back(notice_entry(facts, notice));
  if (order.acted && order.action > schema::Action::sample)
    entries.push_back(order_entry(facts, {order.action, order.clause, order.where, order.rule, order.reason},
                                  schema::to_string(order.action)));
  return entries;
}

}  // namespace driftgate::pipeline::machine
