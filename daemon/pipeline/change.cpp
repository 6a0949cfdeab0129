#include "daemon/pipeline/change.hpp"

#include <nlohmann/json.hpp>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/store/promotions/stream_states.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/routes.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::EvidenceKind;

/// The memory of the canary's tests and the run's row.
schema::Result<void> put_run(store::Tx& tx, Change& change) {
  auto& run = *change.run;
  if (change.progress) run.progress = to_json(*change.progress);
  if (change.canary) {
    run.watermark += 1;
    TRY(store::put_stream_state(tx,
                                {run.key, std::string(kCanaryStream), "", run.watermark, *change.canary}));
  }
  return store::update_stage_run(tx, run);
}

/// The run's row; with its end, its jobs end too.
schema::Result<void> put_run_and_jobs(store::Tx& tx, Entries& entries, const Facts& facts, Change& change) {
  if (change.run->state != store::StageRunState::running) {
    auto left = TRY(put_left_jobs(tx, entries, facts, change.run->key));
    change.left_jobs = std::move(left);
  }
  return put_run(tx, change);
}

schema::Result<void> put_hold(store::Tx& tx, Entries& entries, const Facts& facts, const Change& change) {
  const auto& row = facts.live.row;
  const auto by = change.actor.empty() ? std::string(kDaemonActor) : change.actor;
  TRY(store::set_hold(tx, row.model, *change.hold, by, facts.now_us, row.id));
  auto seq =
      TRY(entries.add(tx, draft(facts, EvidenceKind::hold_set, change.actor, {{"reason", *change.hold}})));
  return store::set_model_evidence(tx, row.model, seq);
}

/// The promotion's row with the entry that says what state it is in; `row.reason` is the entry's reason.
schema::Result<void> put_row(store::Tx& tx, Entries& entries, const Facts& facts, Change& change) {
  auto& row = *change.row;
  row.updated_us = facts.now_us;
  row.evidence_seq = entries.last();
  if (!change.state_entry) return store::update_promotion(tx, row);
  auto body =
      state_body(store::to_string(facts.live.row.state), store::to_string(row.state), row.stage, row.reason);
  body["attempt"] = row.attempt;
  body["traffic"] = store::to_string(row.traffic);
  body["baseline"] = row.baseline;
  body["resume"] = row.resume_state ? store::to_string(*row.resume_state) : std::string_view();
  body["deadline_us"] = row.deadline_us.value_or(-1);
  body["outcome_digest"] = row.outcome.empty() ? std::string() : schema::sha256_digest(row.outcome);
  auto entry = draft(facts, EvidenceKind::state_changed, change.actor, std::move(body));
  const auto& run = change.next ? *change.next : change.run ? *change.run : facts.live.run;
  entry.subject = subject_of(row, facts.live.candidate.checkpoint, &run.key);
  auto seq = TRY(entries.add(tx, entry));
  row.evidence_seq = seq;
  return store::update_promotion(tx, row);
}

/// The model's guard ends: another version serves from now on.
schema::Result<void> end_armed_guard(store::Tx& tx, Entries& entries, const Facts& facts,
                                     const Change& change) {
  const auto& model = facts.live.row.model;
  const auto guard = TRY(store::find_armed_guard(tx, model));
  if (!guard) return {};
  const auto reason = change.row ? change.row->reason : std::string("another version serves");
  schema::EntryDraft entry{.time_us = facts.now_us,
                           .kind = EvidenceKind::guard_ended,
                           .actor = kDaemonActor,
                           .body = {{"guard", guard->id}, {"reason", reason}}};
  entry.subject.model = model;
  entry.subject.contract = guard->contract;
  const auto seq = TRY(entries.add(tx, entry));
  return store::end_guard(tx, guard->id, reason, facts.now_us, seq);
}

schema::Result<void> put_guard(store::Tx& tx, Entries& entries, Change::Guard& guard) {
  const auto seq = TRY(entries.add(tx, guard.armed));
  guard.row.evidence_seq = seq;
  TRY(store::insert_guard(tx, guard.row));
  return store::add_guard_keys(tx, guard.row.id, guard.hour, guard.keys);
}

schema::Result<void> put_decisions(store::Tx& tx, Entries& entries, const Facts& facts,
                                   const Change& change) {
  for (const auto& work : change.rows) TRY(work(tx, entries));
  for (const auto& entry : change.orders) TRY(add_entry(tx, entries, entry));
  if (change.verdicts) TRY(put_verdicts(tx, entries, facts, *change.verdicts));
  for (const auto& entry : change.entries) TRY(add_entry(tx, entries, entry));
  return change.block ? put_block(tx, entries, facts, *change.block) : schema::Result<void>{};
}

}  // namespace

bool concerns_store(const schema::Error& error) {
  using schema::ErrorCode;
  return error.code == ErrorCode::storage_full || error.code == ErrorCode::io ||
         error.code == ErrorCode::unavailable || error.code == ErrorCode::deadline_exceeded;
}

bool Change::is_empty() const {
  return rows.empty() && orders.empty() && !verdicts && entries.empty() && !block && !run && !next &&
         !route && !incumbent && !guard && !hold && !row;
}

schema::EntryDraft draft(const Facts& facts, EvidenceKind kind, std::string_view actor,
                         schema::EntryValue::Object body) {
  return {.time_us = facts.now_us,
          .kind = kind,
          .actor = std::string(actor.empty() ? std::string_view(kDaemonActor) : actor),
          .subject = subject_of(facts.live.row, facts.live.candidate.checkpoint, &facts.live.run.key),
          .body = std::move(body)};
}

schema::Result<void> add_entry(store::Tx& tx, Entries& entries, const schema::EntryDraft& entry) {
  TRY(entries.add(tx, entry));
  return {};
}

schema::Result<void> put_route(store::Tx& tx, Entries& entries, const schema::EvidenceSubject& subject,
                               const route::ModelRoute& route, std::string_view reason, std::int64_t now_us) {
  TRY(store::put_desired_route(
      tx, {route.model, route.epoch, route.revision, route::to_json(route).dump(), now_us}));
  return add_entry(tx, entries,
                   {.time_us = now_us,
                    .kind = EvidenceKind::route_desired,
                    .actor = kDaemonActor,
                    .subject = subject,
                    .body = route_body(route, reason)});
}

schema::Result<void> write_change(store::Tx& tx, Entries& entries, const Facts& facts, Change& change) {
  const auto& model = facts.live.row.model;
  TRY(put_decisions(tx, entries, facts, change));
  if (change.run) TRY(put_run_and_jobs(tx, entries, facts, change));
  if (change.next) TRY(store::insert_stage_run(tx, *change.next));
  if (change.route) {
    const auto& row = change.row ? *change.row : facts.live.row;
    const auto* const stage = change.route->of_stage ? &facts.live.run.key : nullptr;
    const auto subject = subject_of(row, facts.live.candidate.checkpoint, stage);
    TRY(put_route(tx, entries, subject, change.route->route, change.route->reason, facts.now_us));
  }
  if (change.incumbent)
    TRY(store::set_incumbent(tx, model, facts.model->epoch, *change.incumbent, facts.now_us));
  if (change.incumbent) TRY(end_armed_guard(tx, entries, facts, change));
  if (change.guard) TRY(put_guard(tx, entries, *change.guard));
  if (change.hold) TRY(put_hold(tx, entries, facts, change));
  if (change.row) TRY(put_row(tx, entries, facts, change));
  if (change.incumbent && !change.hold) TRY(store::set_model_evidence(tx, model, entries.last()));
  return {};
}

void copy_back(Change&& change, Live& live, ModelState* model) {
  if (change.row) live.row = std::move(*change.row);
  if (change.run) live.run = std::move(*change.run);
  if (change.progress) live.progress = std::move(*change.progress);
  if (change.next) {
    live.run = std::move(*change.next);
    live.progress = {};
    live.canary.reset();
    live.outage_decided = false;
    live.tally.reset();
  }
  if (change.route && model != nullptr) {
    model->desired = std::move(change.route->route);
    model->agreed = false;
    model->kept_safe = false;
    model->retry_at_us = 0;
  }
}

}  // namespace driftgate::pipeline
