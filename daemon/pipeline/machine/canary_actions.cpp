#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/stages/report_json.hpp"
#include "daemon/store/blobs.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::Verdict;
using stages::CanaryAction;
using store::PromotionState;

std::string first_reason(const stages::CanaryDecision& decision) {
  return decision.reasons.empty() ? std::string("the tests say so") : decision.reasons.front();
}

/// What an approver reads: the step, this stay at it and every clause's verdict, without figures that move
/// from window to window, so that an approval is void exactly when a verdict changes or the step was left.
std::string approval_basis(const Live& live, const stages::CanaryDecision& decision) {
  json verdicts = json::array();
  for (const auto& verdict : decision.verdicts) {
    verdicts.push_back({{"clause", verdict.clause},
                        {"slice", schema::slice_text(verdict.where)},
                        {"verdict", schema::to_string(verdict.verdict)}});
  }
  const auto next = static_cast<std::uint32_t>(live.run.step) + 1;
  return schema::canonical_json(json{{"promotion", live.row.id},
                                     {"stage", live.run.key.stage},
                                     {"attempt", live.run.key.attempt},
                                     {"step", live.run.step},
                                     {"step_started_us", live.run.step_started_us},
                                     {"next_share_bp", live.canary->share_of_step(next)},
                                     {"verdicts", std::move(verdicts)}});
}

/// The evidence is no longer what was approved for the step that is about to be left.
bool approval_is_stale(const Live& live, const stages::CanaryDecision& decision) {
  const auto& steps = live.contract->canary->steps;
  const auto step = static_cast<std::size_t>(live.run.step);
  if (decision.action != CanaryAction::advance || step >= steps.size() || !steps[step].approval) return false;
  return schema::sha256_digest(approval_basis(live, decision)) != live.progress.approval_digest;
}

constexpr const char* kMirrorChanges = "what is mirrored changes";

bool is_on_ladder(CanaryAction action) {
  return action == CanaryAction::route_slice || action == CanaryAction::restore_slice ||
         action == CanaryAction::fallback || action == CanaryAction::restore;
}

/// Whether a verdict is about traffic that goes to the fallback kernel.
bool is_set_aside(const stages::CanaryDecision& decision, const schema::ClauseVerdict& verdict) {
  return decision.all_to_fallback ||
         std::ranges::any_of(decision.fallback_slices, [&](const schema::SliceWhere& slice) {
           return std::ranges::all_of(slice, [&](const auto& attribute) {
             const auto found = verdict.where.find(attribute.first);
             return found != verdict.where.end() && found->second == attribute.second;
           });
         });
}

/// What the stage's verdict follows from: every clause; to go on or to finish, those that the candidate is
/// still held to. What was routed away was recorded when it was.
std::vector<schema::ClauseVerdict> decisive(const stages::CanaryDecision& decision) {
  auto verdicts = decision.verdicts;
  const bool goes_on = decision.action == CanaryAction::advance ||
                       decision.action == CanaryAction::wait_approval ||
                       decision.action == CanaryAction::finish;
  if (goes_on) std::erase_if(verdicts, [&](const auto& verdict) { return is_set_aside(decision, verdict); });
  return verdicts;
}

/// Of a look after which the stage goes on: it never passes before its end.
Verdict verdict_so_far(const stages::CanaryDecision& decision) {
  const auto together = schema::combine(decisive(decision));
  return together == Verdict::pass ? Verdict::inconclusive : together;
}

json figures(const Live& live, const stages::CanaryDecision& decision) {
  json value{{"step", live.run.step},
             {"share_bp", live.progress.share_bp},
             {"e_value", live.progress.max_e_value},
             {"exposed_requests", decision.exposed_requests},
             {"exposed_keys", decision.exposed_keys},
             {"failed_requests_candidate", decision.failed_requests_candidate},
             {"failed_requests_incumbent", decision.failed_requests_incumbent},
             {"failed_keys_candidate", decision.failed_keys_candidate},
             {"split_e_value", decision.split_e_value}};
  if (decision.first_failure_us) value["first_failure_us"] = *decision.first_failure_us;
  if (!decision.escalation.clause.empty()) {
    value["clause"] = decision.escalation.clause;
    value["rule"] = decision.escalation.rule;
  }
  return value;
}

}  // namespace

/// What the policy ordered, with its figures.
schema::Result<void> Core::log_decision(store::Tx& tx, Entries& entries, const Live& live,
                                        const stages::CanaryDecision& decision) const {
  auto body = schema::EntryValue::Object{{"action", stages::to_string(decision.action)},
                                         {"reason", first_reason(decision)},
                                         {"figures", entry_value(figures(live, decision))}};
  if (!decision.escalation.clause.empty()) {
    body["clause"] = decision.escalation.clause;
    body["slice"] = schema::slice_text(decision.escalation.where);
    body["rule"] = decision.escalation.rule;
  }
  auto seq = entries.add(tx, draft(live, schema::EvidenceKind::escalation_decided, {}, std::move(body)));
  if (!seq) return std::unexpected(seq.error());
  return {};
}

StageConclusion Core::canary_conclusion(const Live& live, const stages::CanaryDecision& decision,
                                        Verdict verdict, const std::string& state) const {
  StageConclusion conclusion;
  conclusion.report.stage = schema::Stage::canary;
  conclusion.report.verdict = verdict;
  conclusion.report.clauses = decisive(decision);
  conclusion.action = stages::to_string(decision.action);
  conclusion.run = live.progress.spent_k;
  conclusion.report.notes = decision.reasons;
  conclusion.report.alpha = live.contract->confidence.alpha_harm;
  conclusion.report.seed = live.row.seed;
  conclusion.report.code_version = world_.settings.code_version;
  auto report = json::parse(report_json(conclusion.report, nullptr, *live.contract));
  report["canary"] = figures(live, decision);
  conclusion.report_json = schema::canonical_json(report);
  conclusion.inputs_digest = schema::sha256_digest(state);
  return conclusion;
}

/// Carries a decision out. False when its transaction failed: the window is read again.
bool Core::act(Live& live, stages::CanaryDecision decision, const Work& also) {
  const auto capacity = check_capacity(live, decision);
  if (!capacity && decision.notices.empty() && decision.recovered.empty())
    return carry_out(live, decision, also);
  const Work told = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    return log_orders(tx, entries, live, decision, capacity);
  };
  return carry_out(live, decision, told);
}

bool Core::carry_out(Live& live, const stages::CanaryDecision& decision, const Work& also) {
  if (approval_is_stale(live, decision)) {
    auto asked = decision;
    asked.action = CanaryAction::wait_approval;
    asked.reasons.insert(asked.reasons.begin(),
                         "A verdict changed after the approval: it is asked for anew.");
    return ask_approval(live, asked, also);
  }
  switch (decision.action) {
    case CanaryAction::hold:
    case CanaryAction::freeze:
      return note_hold(live, decision, also);
    case CanaryAction::wait_approval:
      return ask_approval(live, decision, also);
    case CanaryAction::finish:
      return conclude_canary(live, decision, also);
    case CanaryAction::rollback:
    case CanaryAction::block:
    case CanaryAction::revert:
    case CanaryAction::inconclusive:
      return end_canary(live, decision, also);
    case CanaryAction::route_slice:
    case CanaryAction::restore_slice:
    case CanaryAction::fallback:
    case CanaryAction::restore:
      // At the same step only the route changes: its soak and its keys go on.
      if (decision.next_step == static_cast<std::uint32_t>(live.run.step))
        return note_hold(live, decision, also);
      break;
    case CanaryAction::advance:
    case CanaryAction::step_back:
      break;
  }
  const auto id = live.row.id;
  live.progress.last_action = stages::to_string(decision.action);
  live.progress.frozen = false;
  auto conclusion = canary_conclusion(live, decision, verdict_so_far(decision), live.canary->serialise());
  conclusion.ended = false;
  const Work work = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    auto put = put_verdicts(tx, entries, live, conclusion);
    if (!put) return put;
    return log_decision(tx, entries, live, decision);
  };
  go_to_step(live, decision.next_step, decision.next_share_bp, work, first_reason(decision), &decision);
  const auto* after = find(id);
  return after == nullptr || after->retry_at_us == 0;
}

/// The share stays as it is; a decision other than the last one is logged, and where requests of slices and
/// copies go may change.
bool Core::note_hold(Live& live, const stages::CanaryDecision& decision, const Work& also) {
  const std::string action(stages::to_string(decision.action));
  const auto route = rerouted(live, decision);
  const bool on_ladder = is_on_ladder(decision.action);
  const bool changed = on_ladder || (action != live.progress.last_action &&
                                     (decision.action == CanaryAction::freeze || live.progress.frozen));
  live.progress.last_action = action;
  live.progress.frozen = decision.action == CanaryAction::freeze;
  auto run = live.run;
  auto row = live.row;
  // What was asked to be approved no longer stands. A hold for a route that is not read back yet keeps it.
  const bool unproven = decision.action == CanaryAction::hold && !decision.advance_proven;
  const bool withdrawn = row.state == PromotionState::awaiting_approval &&
                         (decision.action == CanaryAction::freeze || on_ladder || unproven);
  if (withdrawn) {
    row.state = PromotionState::running;
    row.deadline_us.reset();
    row.reason = first_reason(decision);
    live.progress.approval_digest.clear();
  }
  run.progress = to_json(live.progress);
  auto conclusion = canary_conclusion(live, decision, verdict_so_far(decision), live.canary->serialise());
  conclusion.ended = false;
  auto done = commit("canary window", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    if (on_ladder) {
      auto put = put_verdicts(tx, entries, live, conclusion);
      if (!put) return put;
    }
    if (changed) {
      auto logged = log_decision(tx, entries, live, decision);
      if (!logged) return logged;
    }
    if (route) {
      auto routed = put_route(tx, entries, subject_of(row, live.candidate.checkpoint, &run.key), *route,
                              on_ladder ? first_reason(decision) : std::string(kMirrorChanges));
      if (!routed) return routed;
    }
    if (withdrawn) {
      auto recorded = record_state(tx, entries, live, row, run, {});
      if (!recorded) return recorded;
    }
    return put_canary(tx, run, live.canary->serialise());
  });
  if (!done) {
    stumble(live, done.error());
    return false;
  }
  live.run = run;
  live.row = row;
  const auto name = row.model;
  if (route) adopt_route(name, *route);
  return true;
}

/// All but an approval is met: ask for it, naming the evidence; ask anew when a verdict changed since.
bool Core::ask_approval(Live& live, const stages::CanaryDecision& decision, const Work& also) {
  const auto basis = approval_basis(live, decision);
  const auto digest = schema::sha256_digest(basis);
  if (live.row.state != PromotionState::running && digest == live.progress.approval_digest)
    return note_hold(live, decision, also);
  auto row = live.row;
  auto run = live.run;
  live.progress.last_action = stages::to_string(decision.action);
  live.progress.approval_digest = digest;
  run.progress = to_json(live.progress);
  const bool paused = row.state == PromotionState::paused;
  if (!paused) {
    row.state = PromotionState::awaiting_approval;
    row.deadline_us = now() + live.contract->canary->approval_deadline_ms * 1'000;
  }
  const auto route = rerouted(live, decision);
  const auto next = static_cast<std::uint32_t>(run.step) + 1;
  const bool last = next >= live.contract->canary->steps.size();
  const bool baked = next > live.contract->canary->steps.size();
  row.reason = baked  ? first_reason(decision)
               : last ? fmt::format("step {} waits for an approval to begin the bake", next)
                      : fmt::format("step {} waits for an approval to go to {:.4g}%", next,
                                    live.canary->share_of_step(next) / 100.0);
  auto conclusion = canary_conclusion(live, decision, verdict_so_far(decision), live.canary->serialise());
  conclusion.ended = false;
  auto done = commit("ask for approval", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    auto blob = store::put_blob(tx, basis, "application/json", now());
    if (!blob) return std::unexpected(blob.error());
    auto put = put_verdicts(tx, entries, live, conclusion);
    if (!put) return put;
    auto logged = log_decision(tx, entries, live, decision);
    if (!logged) return logged;
    if (route) {
      auto routed = put_route(tx, entries, subject_of(row, live.candidate.checkpoint, &run.key), *route,
                              kMirrorChanges);
      if (!routed) return routed;
    }
    auto stored = put_canary(tx, run, live.canary->serialise());
    if (!stored) return stored;
    return record_state(tx, entries, live, row, run, {});
  });
  if (!done) {
    stumble(live, done.error());
    return false;
  }
  live.row = row;
  live.run = run;
  const auto name = row.model;
  if (route) adopt_route(name, *route);
  return true;
}

/// The bake is over: the candidate becomes the incumbent when the route was read back.
bool Core::conclude_canary(Live& live, const stages::CanaryDecision& decision, const Work& also) {
  auto& model = models_.at(live.row.model);
  auto route = with_ladder(next_route(model), live, decision);
  route.mirror_bp = 0;
  route.incumbent = arm(live.candidate);
  route.candidate.reset();
  route.candidate_bp = 0;
  route.stage_key.clear();
  auto row = live.row;
  auto run = live.run;
  live.progress.last_action = stages::to_string(decision.action);
  const auto conclusion = canary_conclusion(live, decision, Verdict::pass, live.canary->serialise());
  row.state = PromotionState::finalizing;
  row.reason = first_reason(decision);
  row.deadline_us.reset();
  run.progress = to_json(live.progress);
  const auto name = row.model;
  auto done = commit("finish canary", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    auto put = put_verdicts(tx, entries, live, conclusion);
    if (!put) return put;
    auto logged = log_decision(tx, entries, live, decision);
    if (!logged) return logged;
    run.state = store::StageRunState::pass;
    run.ended_us = now();
    run.report = schema::sha256_digest(conclusion.report_json);
    auto stored = put_canary(tx, run, live.canary->serialise());
    if (!stored) return stored;
    auto routed = put_route(tx, entries, subject_of(row, live.candidate.checkpoint, &run.key), route,
                            "the candidate becomes the incumbent");
    if (!routed) return routed;
    return record_state(tx, entries, live, row, run, {});
  });
  if (!done) {
    stumble(live, done.error());
    return false;
  }
  live.row = row;
  live.run = run;
  model.desired = route;
  model.agreed = false;
  model.retry_at_us = 0;
  ensure_route(name);
  return true;
}

/// Weight 0: harm (rejected, hold), silence (errored, hold), or no decision in time (inconclusive).
bool Core::end_canary(Live& live, const stages::CanaryDecision& decision, const Work& also) {
  live.progress.last_action = stages::to_string(decision.action);
  const bool blocks = decision.action == CanaryAction::block;
  const bool harm = blocks || decision.action == CanaryAction::rollback;
  const bool silence = decision.action == CanaryAction::revert;
  const auto verdict = harm ? Verdict::violated : silence ? Verdict::error : Verdict::inconclusive;
  const auto state = live.canary->serialise();
  const auto conclusion = canary_conclusion(live, decision, verdict, state);
  auto outcome = figures(live, decision);
  outcome["verdict"] = schema::to_string(verdict);
  outcome["stage"] = live.run.key.stage;
  outcome["why"] = first_reason(decision);
  live.run.progress = to_json(live.progress);
  Withdrawal end;
  end.target = harm      ? PromotionState::rejected
               : silence ? PromotionState::errored
                         : PromotionState::inconclusive;
  end.run_state = harm      ? store::StageRunState::violated
                  : silence ? store::StageRunState::error
                            : store::StageRunState::inconclusive;
  end.reason = fmt::format("canary: {}", first_reason(decision));
  end.hold = harm || silence;
  end.outcome = schema::canonical_json(outcome);
  end.report = schema::sha256_digest(conclusion.report_json);
  end.also = [&, block = new_id("bl")](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    auto put = put_verdicts(tx, entries, live, conclusion);
    if (!put) return put;
    auto logged = log_decision(tx, entries, live, decision);
    if (!logged) return logged;
    if (blocks) {
      auto blocked = put_block(tx, entries, live, block, decision.escalation);
      if (!blocked) return blocked;
    }
    auto run = live.run;
    return put_canary(tx, run, state);
  };
  return withdraw(live, std::move(end)).has_value();
}

}  // namespace driftgate::pipeline
