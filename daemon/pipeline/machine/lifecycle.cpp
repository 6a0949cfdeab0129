#include "daemon/pipeline/machine/lifecycle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/ladder.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline::machine {
namespace {

using schema::ErrorCode;
using schema::Stage;
using schema::Verdict;
using store::PromotionState;
using store::StageRunState;

/// Errors that a repetition may cure; all others need a person.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::deadline_exceeded || code == ErrorCode::io ||
         code == ErrorCode::storage_full || code == ErrorCode::internal;
}

StageRunState run_state(Verdict verdict) {
  constexpr std::array kByVerdict{StageRunState::pass, StageRunState::violated, StageRunState::inconclusive,
                                  StageRunState::error};
  return kByVerdict.at(static_cast<std::size_t>(verdict));
}

std::string named(const schema::ClauseVerdict& clause) {
  return clause.where.empty() ? clause.clause
                              : fmt::format("{} on {}", clause.clause, schema::slice_text(clause.where));
}

/// The sentence of the first hard clause with the stage's verdict, and the names of the others, for `reason`.
std::string why(const stages::StageReport& report) {
  constexpr int kNamed = 10;
  std::string text;
  std::string others;
  int more = 0;
  for (const auto& clause : report.clauses) {
    if (clause.verdict != report.verdict || clause.severity != schema::Severity::hard) continue;
    if (text.empty()) {
      text = fmt::format("{}: {}", named(clause), clause.message);
    } else if (++more <= kNamed) {
      others += (others.empty() ? "" : ", ") + named(clause);
    }
  }
  if (text.empty())
    return report.notes.empty() ? std::string("no clause gives a reason") : report.notes.front();
  if (more > kNamed) others += fmt::format(" and {} more", more - kNamed);
  return others.empty() ? text : fmt::format("{} Also: {}.", text, others);
}

std::string outcome_json(std::string_view verdict, std::string_view stage, const std::string& reason) {
  return schema::canonical_json(nlohmann::json{{"verdict", verdict}, {"stage", stage}, {"why", reason}});
}

/// A verdict, or an order of the policy, ends the promotion.
Change end_by_verdict(const Facts& facts, const stages::StageReport& report,
                      const stages::EscalationDecision* order, Change change) {
  const bool violated = order != nullptr || report.verdict == Verdict::violated;
  const auto reason = order != nullptr && report.verdict != Verdict::violated ? order->reason : why(report);
  const auto stage = schema::to_string(report.stage);
  const auto digest = schema::sha256_digest(change.verdicts->report_json);
  return withdraw(facts,
                  {.target = violated ? PromotionState::rejected : PromotionState::errored,
                   .run_state = run_state(report.verdict),
                   .reason = fmt::format("{}: {}", stage, reason),
                   .report = digest,
                   .outcome = outcome_json(schema::to_string(report.verdict), stage, reason)},
                  std::move(change));
}

/// The run has ended with its report; its jobs and its spool are not needed any more.
void close_run(Change& change, const Facts& facts, const stages::StageReport& report) {
  auto run = facts.live.run;
  run.state = run_state(report.verdict);
  run.ended_us = facts.now_us;
  run.report = schema::sha256_digest(change.verdicts->report_json);
  const auto key = run.key.text();
  change.run = std::move(run);
  change.effects.emplace_back(ForgetJobs{key + "/"});
  if (report.stage == Stage::shadow_runtime) change.effects.emplace_back(DropSpool{key});
}

}  // namespace

store::StageRunRow new_run(const Facts& facts, Stage stage, std::int64_t attempt) {
  store::StageRunRow run;
  run.key = {facts.live.row.id, std::string(schema::to_string(stage)), attempt};
  run.started_us = facts.now_us;
  return run;
}

void go_to_stage(Change& change, const Facts& facts, Stage stage, std::int64_t attempt) {
  change.next = new_run(facts, stage, attempt);
  if (!change.row) change.row = facts.live.row;
  change.row->state = PromotionState::running;
  change.row->stage = change.next->key.stage;
  change.row->attempt = attempt;
  change.effects.emplace_back(EnterStage{facts.live.row.id});
}

Stage stage_after(Stage stage) {
  return static_cast<Stage>(static_cast<int>(stage) + 1);
}

Change begin_promotion(const Facts& facts, const std::string& incumbent) {
  Change change{.name = "start promotion"};
  go_to_stage(change, facts, Stage::offline_numeric, 1);
  change.row->baseline = incumbent;
  change.row->reason = fmt::format("baseline locked at {}", incumbent);
  return change;
}

Change conclude_stage(const Facts& facts, StageConclusion conclusion, const std::string& block_id) {
  const auto report = conclusion.report;
  const auto order = stages::escalate(facts.live.contract->escalation, report.stage, report.clauses);
  Change change{.name = "finish stage", .entries = order_entries(facts, order)};
  change.verdicts = std::move(conclusion);
  if (order.acted && order.action == schema::Action::block) change.block = {block_id, order};
  // A rule may end the promotion for a clause that is soft and so leaves the stage's verdict as it is.
  const bool ordered = order.acted && order.action >= schema::Action::rollback;
  if (ordered || report.verdict == Verdict::violated || report.verdict == Verdict::error)
    return end_by_verdict(facts, report, ordered ? &order : nullptr, std::move(change));
  close_run(change, facts, report);
  change.row = facts.live.row;
  if (report.verdict == Verdict::pass) {
    go_to_stage(change, facts, stage_after(report.stage), 1);
    change.row->reason = fmt::format("{} passed", schema::to_string(report.stage));
  } else {
    change.row->state = PromotionState::inconclusive;
    change.row->deadline_us = facts.now_us + facts.settings.inconclusive_deadline_ms * 1'000;
    change.row->reason = fmt::format("{} is inconclusive: {}", schema::to_string(report.stage), why(report));
  }
  return change;
}

Change fail_attempt(const Facts& facts, const schema::Error& error, std::string_view what) {
  const auto& key = facts.live.run.key;
  const auto stage = *schema::stage_from_name(key.stage);
  const auto reason = fmt::format("{}: {}: {}", key.stage, what, error.describe());
  Change change{.name = "retry stage"};
  change.verdicts.emplace();
  change.verdicts->action = "failed";
  change.verdicts->report.stage = stage;
  change.verdicts->report.verdict = Verdict::error;
  change.verdicts->report.code_version = facts.settings.code_version;
  change.verdicts->report.notes.push_back(reason);
  if (!may_pass(error.code) || key.attempt >= facts.settings.max_attempts) {
    return withdraw(facts,
                    {.target = PromotionState::errored,
                     .run_state = StageRunState::error,
                     .reason = reason,
                     .outcome = outcome_json("error", key.stage, reason)},
                    std::move(change));
  }
  change.run = facts.live.run;
  change.run->state = StageRunState::error;
  change.run->ended_us = facts.now_us;
  change.next = new_run(facts, stage, key.attempt + 1);
  change.row = facts.live.row;
  change.row->attempt = change.next->key.attempt;
  change.row->reason = reason;
  return change;
}

std::int64_t retry_delay_us(const Settings& settings, std::int64_t failed_attempt) {
  return (settings.retry_ms << std::min<std::int64_t>(failed_attempt - 1, 8)) * 1'000;
}

Change shadow_route_applied(const Facts& facts) {
  Change change{.name = "shadow phase", .progress = facts.live.progress, .run = facts.live.run};
  const bool stopped = change.progress->phase == "stopping";
  change.progress->phase = stopped ? "rescoring" : "mirroring";
  if (!stopped) {
    change.run->step_started_us = facts.now_us;
    change.run->planned_end_us = facts.now_us + facts.live.contract->shadow.min_duration_ms * 1'000;
  } else if (facts.live.row.state == PromotionState::running) {
    change.effects.emplace_back(EnterStage{facts.live.row.id});
  }
  return change;
}

schema::Result<Change> pause(const Facts& facts, const std::string& actor, const std::string& reason) {
  const auto& row = facts.live.row;
  if (row.state == PromotionState::paused) return Change{};
  if (row.state != PromotionState::running && row.state != PromotionState::awaiting_approval) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("promotion {} is {}; only a running one can be paused", row.id,
                                    store::to_string(row.state)));
  }
  Change change{.name = "pause", .actor = actor, .row = row};
  change.row->resume_state = PromotionState::running;  // what waited for an approval asks for it again
  change.row->state = PromotionState::paused;
  change.row->deadline_us = facts.now_us + facts.settings.pause_deadline_ms * 1'000;
  change.row->reason = reason.empty() ? fmt::format("paused by {}", actor) : reason;
  return change;
}

schema::Result<Change> resume(const Facts& facts, const std::string& actor, const std::string& reason) {
  const auto& row = facts.live.row;
  if (row.state == PromotionState::running) return Change{};
  const bool again = row.state == PromotionState::inconclusive;
  if (row.state != PromotionState::paused && !again) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("promotion {} is {}; only a paused or inconclusive one can be resumed",
                                    row.id, store::to_string(row.state)));
  }
  Change change{.name = "resume", .actor = actor, .row = row};
  const auto& key = facts.live.run.key;
  if (again) {
    go_to_stage(change, facts, *schema::stage_from_name(key.stage), key.attempt + 1);
    change.row->outcome.clear();
  } else {
    change.row->state = PromotionState::running;
    change.effects.emplace_back(EnterStage{row.id});
  }
  change.row->resume_state.reset();
  change.row->deadline_us.reset();
  change.row->reason = reason.empty() ? fmt::format("resumed by {}", actor) : reason;
  return change;
}

}  // namespace driftgate::pipeline::machine
