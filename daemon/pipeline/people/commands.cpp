#include <fmt/format.h>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using store::PromotionState;

}  // namespace

schema::Result<void> Core::abort(const std::string& actor, const std::string& id, const std::string& reason) {
  auto found = get_live(id);
  if (!found) return std::unexpected(found.error());
  auto& live = **found;
  const Withdrawal end{
      .target = PromotionState::aborted, .actor = actor, .reason = reason.empty() ? "aborted" : reason};
  return live.row.state == PromotionState::rolling_back ? strengthen(live, end) : withdraw(live, end);
}

schema::Result<void> Core::rollback(const std::string& actor, const std::string& id,
                                    const std::string& reason) {
  const auto why = reason.empty() ? std::string("rolled back") : reason;
  if (auto* live = find(id)) {
    const Withdrawal end{.target = PromotionState::rejected, .actor = actor, .reason = why, .hold = true};
    return live->row.state == PromotionState::rolling_back ? strengthen(*live, end) : withdraw(*live, end);
  }
  auto row = world_.store.read([&](store::Reader& reader) { return store::get_promotion(reader, id); });
  if (!row) return std::unexpected(row.error());
  if (row->state != PromotionState::succeeded) {
    return schema::fail(ErrorCode::conflict, fmt::format("promotion {} is {}: its candidate serves nothing",
                                                         id, store::to_string(row->state)));
  }
  if (row->traffic == store::Traffic::reverted) return {};
  return revert_success(actor, *row, why);
}

schema::Result<void> Core::pause(const std::string& actor, const std::string& id, const std::string& reason) {
  auto found = get_live(id);
  if (!found) return std::unexpected(found.error());
  auto& live = **found;
  if (live.row.state == PromotionState::paused) return {};
  if (live.row.state != PromotionState::running && live.row.state != PromotionState::awaiting_approval) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("promotion {} is {}; only a running one can be paused", id,
                                    store::to_string(live.row.state)));
  }
  auto row = live.row;
  row.resume_state = PromotionState::running;  // what waited for an approval asks for it again
  row.state = PromotionState::paused;
  row.deadline_us = now() + world_.settings.pause_deadline_ms * 1'000;
  row.reason = reason.empty() ? fmt::format("paused by {}", actor) : reason;
  auto done = commit("pause", [&](store::Tx& tx, Entries& entries) {
    return record_state(tx, entries, live, row, live.run, actor);
  });
  if (!done) return done;
  live.row = row;
  return {};
}

/// Goes on after a pause, or with another attempt of a stage that was inconclusive.
schema::Result<void> Core::resume(const std::string& actor, const std::string& id,
                                  const std::string& reason) {
  auto found = get_live(id);
  if (!found) return std::unexpected(found.error());
  auto& live = **found;
  if (live.row.state == PromotionState::running) return {};
  const bool again = live.row.state == PromotionState::inconclusive;
  if (live.row.state != PromotionState::paused && !again) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("promotion {} is {}; only a paused or inconclusive one can be resumed",
                                    id, store::to_string(live.row.state)));
  }
  auto row = live.row;
  auto next = store::StageRunRow{};
  next.key.promotion = row.id;
  if (again) {
    begin_stage(next, *schema::stage_from_name(live.run.key.stage), live.run.key.attempt + 1);
    row.attempt = next.key.attempt;
    row.outcome.clear();
  }
  row.state = PromotionState::running;
  row.resume_state.reset();
  row.deadline_us.reset();
  row.reason = reason.empty() ? fmt::format("resumed by {}", actor) : reason;
  auto done = commit("resume", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (again) {
      auto inserted = store::insert_stage_run(tx, next);
      if (!inserted) return inserted;
    }
    return record_state(tx, entries, live, row, again ? next : live.run, actor);
  });
  if (!done) return done;
  auto loaded = load(live, row);
  if (!loaded) {
    stumble(live, loaded.error());
    return {};
  }
  go_on(live);
  return {};
}

schema::Result<void> Core::lift_hold(const std::string& actor, const std::string& model,
                                     const std::string& reason) {
  auto done = commit("lift hold", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto lifted = store::lift_hold(tx, model, now());
    if (!lifted) return lifted;
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::hold_lifted;
    entry.actor = actor;
    entry.subject.model = model;
    entry.body = {{"reason", reason}};
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    return store::set_model_evidence(tx, model, *seq);
  });
  if (done) start_next(model);
  return done;
}

}  // namespace driftgate::pipeline
