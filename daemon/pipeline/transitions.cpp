#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using schema::Stage;
using store::PromotionState;
using store::StageRunState;

/// How often a scheduled promotion that waits in a blackout is looked at.
constexpr std::int64_t kBlackoutLookUs = 60'000'000;

/// Errors that a repetition may cure; all others need a person.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::deadline_exceeded || code == ErrorCode::io ||
         code == ErrorCode::storage_full || code == ErrorCode::internal;
}

StageRunState run_state(schema::Verdict verdict) {
  switch (verdict) {
    case schema::Verdict::pass:
      return StageRunState::pass;
    case schema::Verdict::violated:
      return StageRunState::violated;
    case schema::Verdict::inconclusive:
      return StageRunState::inconclusive;
    case schema::Verdict::error:
      return StageRunState::error;
  }
  return StageRunState::error;
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
  if (text.empty()) return report.notes.empty() ? std::string("no clause says more") : report.notes.front();
  if (more > kNamed) others += fmt::format(" and {} more", more - kNamed);
  return others.empty() ? text : fmt::format("{} Likewise: {}.", text, others);
}

}  // namespace

/// Rebuilds `live` from the store.
schema::Result<void> Core::load(Live& live, const store::PromotionRow& row) {
  return world_.store.read([&](store::Reader& reader) -> schema::Result<void> {
    auto contract = store::find_contract(reader, row.contract);
    if (!contract) return std::unexpected(contract.error());
    auto candidate = store::find_version(reader, row.candidate);
    if (!candidate) return std::unexpected(candidate.error());
    if (!*contract || !*candidate)
      return schema::fail(ErrorCode::corrupt,
                          fmt::format("promotion {} names a contract or version that is not stored", row.id));
    auto report = schema::parse_stored_contract((*contract)->canonical, (*contract)->name);
    if (!report.contract) {
      return schema::fail(ErrorCode::corrupt,
                          fmt::format("the stored contract {} cannot be read: {}", row.contract,
                                      schema::format_faults(report.faults, (*contract)->name)));
    }
    live.contract = std::make_shared<const schema::Contract>(std::move(*report.contract));
    live.row = row;
    live.candidate = **candidate;
    live.canary.reset();
    live.run = {};
    live.progress = {};
    if (!row.baseline.empty()) {
      auto baseline = store::find_version(reader, row.baseline);
      if (!baseline) return std::unexpected(baseline.error());
      if (*baseline) live.baseline = **baseline;
    }
    live.fallback = {};
    if (!row.fallback.empty()) {
      auto fallback = store::find_version(reader, row.fallback);
      if (!fallback) return std::unexpected(fallback.error());
      if (*fallback) live.fallback = **fallback;
    }
    if (row.stage.empty()) return {};
    auto run = store::find_stage_run(reader, {row.id, row.stage, row.attempt});
    if (!run) return std::unexpected(run.error());
    if (!*run)
      return schema::fail(ErrorCode::corrupt,
                          fmt::format("stage {} of promotion {} is not stored", row.stage, row.id));
    live.run = **run;
    live.progress = progress_from_json(live.run.progress);
    // The wall clock may have been set back since: silence must not be hidden by times in the future.
    live.progress.last_window_us = std::min(live.progress.last_window_us, now());
    live.run.step_started_us = std::min(live.run.step_started_us, now());
    return {};
  });
}

/// Starts the newest queued promotion of a model when nothing holds it. Older ones, which a kill right after
/// a newer request may have left, are superseded.
void Core::start_next(const std::string& name) {
  if (holder(name) != nullptr) return;
  auto model = world_.store.read([&](store::Reader& reader) { return store::get_model(reader, name); });
  if (!model || model->hold) return;
  std::vector<std::string> queued;  // by id, which is by age
  for (const auto& [id, live] : live_) {
    if (live->row.model == name && live->row.state == PromotionState::queued) queued.push_back(id);
  }
  if (queued.empty()) return;
  for (std::size_t i = 0; i + 1 < queued.size(); ++i) {
    auto* older = find(queued[i]);
    if (older == nullptr || older->row.state != PromotionState::queued) continue;
    (void)withdraw(
        *older, {.target = PromotionState::superseded, .reason = fmt::format("{} is newer", queued.back())});
  }
  // The end of an older one may have started it already.
  auto* next = find(queued.back());
  if (next == nullptr || next->row.state != PromotionState::queued || holder(name) != nullptr) return;
  if (next->row.requester.starts_with("schedule/") && blackout_of(name) != nullptr) {
    next->retry_at_us = now() + kBlackoutLookUs;
    return;
  }
  begin_promotion(*next, *model);
}

void Core::begin_promotion(Live& live, const store::ModelRow& model) {
  if (model.incumbent == live.row.candidate) {
    (void)withdraw(
        live, {.target = PromotionState::superseded, .reason = "the candidate is the incumbent already"});
    return;
  }
  if (auto blocked = refuse_blocked(live.candidate.checkpoint, live.candidate.kernel, live.row.contract);
      !blocked && blocked.error().code == ErrorCode::conflict) {
    (void)withdraw(live, {.target = PromotionState::rejected, .reason = blocked.error().message});
    return;
  }
  auto row = live.row;
  store::StageRunRow run;
  row.state = PromotionState::running;
  row.baseline = model.incumbent;
  row.reason = fmt::format("baseline locked at {}", model.incumbent);
  run.key.promotion = row.id;
  begin_stage(run, Stage::offline_numeric, 1);
  row.stage = run.key.stage;
  row.attempt = 1;
  auto done = commit("start promotion", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto inserted = store::insert_stage_run(tx, run);
    if (!inserted) return inserted;
    return record_state(tx, entries, live, row, run, {});
  });
  if (!done) return stumble(live, done.error());
  const auto loaded = load(live, row);
  if (!loaded) return stumble(live, loaded.error());
  enter_stage(live);
}

void Core::begin_stage(store::StageRunRow& run, Stage stage, std::int64_t attempt) const {
  const auto promotion = run.key.promotion;
  run = {};
  run.key = {promotion, std::string(schema::to_string(stage)), attempt};
  run.started_us = now();
}

/// Continues a promotion from what is stored: at a start, after a failed transaction, after a resume.
void Core::go_on(Live& live) {
  live.retry_at_us = 0;
  switch (live.row.state) {
    case PromotionState::running:
    case PromotionState::awaiting_approval:
      return enter_stage(live);
    case PromotionState::rolling_back:
    case PromotionState::finalizing:
      return ensure_route(live.row.model);
    default:
      return;
  }
}

void Core::enter_stage(Live& live) {
  const auto stage = schema::stage_from_name(live.run.key.stage);
  if (!stage || live.run.state != StageRunState::running) return;
  switch (*stage) {
    case Stage::offline_numeric:
    case Stage::statistical_slice:
      return run_fixed(live);
    case Stage::shadow_runtime:
      return run_shadow(live);
    case Stage::canary:
      return run_canary(live);
  }
}

/// The promotion's state after a stage has its verdict, and the next run when there is one.
void Core::after_stage(Live& live, store::PromotionRow& row, store::StageRunRow& next,
                       const StageConclusion& conclusion) const {
  const auto& report = conclusion.report;
  if (report.verdict == schema::Verdict::pass) {
    const auto stage = static_cast<Stage>(static_cast<int>(report.stage) + 1);
    begin_stage(next, stage, 1);
    row.stage = next.key.stage;
    row.attempt = 1;
    row.state = PromotionState::running;
    row.reason = fmt::format("{} passed", schema::to_string(report.stage));
  } else if (report.verdict == schema::Verdict::inconclusive) {
    row.state = PromotionState::inconclusive;
    row.deadline_us = now() + world_.settings.inconclusive_deadline_ms * 1'000;
    row.reason = fmt::format("{} is inconclusive: {}", schema::to_string(report.stage), why(report));
  }
  (void)live;
}

/// Verdicts, report, table and the state that follows, in one transaction.
void Core::finish_stage(Live& live, const StageConclusion& conclusion) {
  const auto& report = conclusion.report;
  const auto order = offline_order(live, report);
  const bool blocks = order.acted && order.action == schema::Action::block;
  const Work rows = [&, block = new_id("bl")](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto put = put_verdicts(tx, entries, live, conclusion);
    if (!put) return put;
    auto logged = log_offline(tx, entries, live, order);
    return logged && blocks ? put_block(tx, entries, live, block, order) : logged;
  };
  // A rule may end the promotion for a clause that is soft and so leaves the stage's verdict as it is.
  const bool ordered = order.acted && order.action >= schema::Action::rollback;
  if (ordered || report.verdict == schema::Verdict::violated || report.verdict == schema::Verdict::error) {
    const bool violated = ordered || report.verdict == schema::Verdict::violated;
    const bool by_order = ordered && report.verdict != schema::Verdict::violated;
    const auto reason = by_order ? order.reason : why(report);
    const nlohmann::json outcome{{"verdict", schema::to_string(report.verdict)},
                                 {"stage", schema::to_string(report.stage)},
                                 {"why", reason}};
    Withdrawal end{.target = violated ? PromotionState::rejected : PromotionState::errored,
                   .run_state = run_state(report.verdict),
                   .reason = fmt::format("{}: {}", schema::to_string(report.stage), reason),
                   .hold = false,
                   .outcome = schema::canonical_json(outcome),
                   .also = rows};
    end.report = schema::sha256_digest(conclusion.report_json);
    (void)withdraw(live, std::move(end));
    return;
  }
  auto row = live.row;
  auto run = live.run;
  auto next = store::StageRunRow{};
  next.key.promotion = row.id;
  after_stage(live, row, next, conclusion);
  run.state = run_state(report.verdict);
  run.ended_us = now();
  auto done = commit("finish stage", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto put = rows(tx, entries);
    if (!put) return put;
    run.report = schema::sha256_digest(conclusion.report_json);
    auto updated = store::update_stage_run(tx, run);
    if (!updated) return updated;
    if (!next.key.stage.empty()) {
      auto inserted = store::insert_stage_run(tx, next);
      if (!inserted) return inserted;
    }
    return record_state(tx, entries, live, row, next.key.stage.empty() ? run : next, {});
  });
  if (!done) return stumble(live, done.error());
  const auto finished = live.run.key;
  const auto loaded = load(live, row);
  if (!loaded) return stumble(live, loaded.error());
  world_.runner.forget(job_key(finished, ""));
  if (report.stage == Stage::shadow_runtime) (void)world_.driver.drop_spool(finished.text());
  enter_stage(live);
}

/// An attempt that could not measure: again after a back-off when that may help, else the end.
void Core::fail_stage(Live& live, const schema::Error& error, std::string_view what) {
  const auto reason = fmt::format("{}: {}: {}", live.run.key.stage, what, error.describe());
  StageConclusion failed;
  failed.action = "failed";
  failed.report.stage = *schema::stage_from_name(live.run.key.stage);
  failed.report.verdict = schema::Verdict::error;
  failed.report.code_version = world_.settings.code_version;
  failed.report.notes.push_back(reason);
  const Work recorded = [&](store::Tx& tx, Entries& entries) {
    return put_verdicts(tx, entries, live, failed);
  };
  if (!may_pass(error.code) || live.run.key.attempt >= world_.settings.max_attempts) {
    const nlohmann::json outcome{{"verdict", "error"}, {"stage", live.run.key.stage}, {"why", reason}};
    (void)withdraw(live, {.target = PromotionState::errored,
                          .run_state = StageRunState::error,
                          .reason = reason,
                          .outcome = schema::canonical_json(outcome),
                          .also = recorded});
    return;
  }
  auto row = live.row;
  auto run = live.run;
  auto next = store::StageRunRow{};
  next.key.promotion = row.id;
  begin_stage(next, *schema::stage_from_name(run.key.stage), run.key.attempt + 1);
  run.state = StageRunState::error;
  run.ended_us = now();
  row.attempt = next.key.attempt;
  row.reason = reason;
  auto done = commit("retry stage", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto noted = recorded(tx, entries);
    if (!noted) return noted;
    auto updated = store::update_stage_run(tx, run);
    if (!updated) return updated;
    auto inserted = store::insert_stage_run(tx, next);
    if (!inserted) return inserted;
    return record_state(tx, entries, live, row, next, {});
  });
  if (!done) return stumble(live, done.error());
  const auto loaded = load(live, row);
  if (!loaded) return stumble(live, loaded.error());
  live.retry_at_us =
      now() + (world_.settings.retry_ms << std::min<std::int64_t>(run.key.attempt - 1, 8)) * 1'000;
}

/// Approvals, pauses and inconclusive states do not last for ever.
void Core::check_deadline(Live& live) {
  if (!live.row.deadline_us || now() < *live.row.deadline_us) return;
  const auto state = store::to_string(live.row.state);
  (void)withdraw(live, {.target = PromotionState::expired,
                        .reason = fmt::format("nobody acted while it was {}", state)});
}

/// Side effects of an end: jobs, folders and spools go, the next in the queue starts.
void Core::end(Live& live) {
  const auto model = live.row.model;
  const auto id = live.row.id;
  world_.runner.forget(id + "/");
  if (live.run.key.stage == schema::to_string(Stage::shadow_runtime) || live.progress.samples > 0 ||
      !live.progress.sample.empty())
    (void)world_.driver.drop_spool(live.run.key.text());
  live_.erase(id);
  start_next(model);
}

}  // namespace driftgate::pipeline
