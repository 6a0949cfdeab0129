#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/store/registry/routes.hpp"

namespace driftgate::pipeline {
namespace {

using store::PromotionState;

constexpr std::int64_t kMaxModels = 10'000;
/// Steps of the wall clock that are recorded within an hour; later ones add up until the next.
constexpr int kMaxClockEntries = 120;
constexpr std::int64_t kHourUs = 3'600'000'000;

/// The candidate's share as the data plane has it, 0 when it cannot be read or is another candidate.
std::uint32_t observed_share(const std::vector<route::ObservedRoute>& observed,
                             const route::ModelRoute& desired) {
  const auto found =
      std::ranges::find_if(observed, [&](const auto& held) { return held.route.model == desired.model; });
  if (found == observed.end() || found->reverted || !desired.candidate ||
      found->route.candidate != desired.candidate)
    return 0;
  return found->route.candidate_bp;
}

}  // namespace

/// pipeline.md, "Crash safety": locks with epoch + 1, shares no larger than what is desired and held, then
/// each stage goes on from what is stored.
schema::Result<void> Core::start() {
  auto blackouts = read_blackouts();
  if (!blackouts) return blackouts;
  auto names =
      world_.store.read([&](store::Reader& reader) { return store::list_models(reader, "", kMaxModels); });
  if (!names) return std::unexpected(names.error());
  const auto held = world_.driver.observe();
  if (!held)
    warn(fmt::format("the data plane cannot be read at the start: {}; candidates get no traffic until it can",
                     held.error().describe()));
  const auto observed = held ? *held : std::vector<route::ObservedRoute>{};
  std::map<std::string, ModelState, std::less<>> models;
  auto done = commit("start daemon", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::daemon_started;
    entry.actor = kDaemonActor;
    entry.body = {{"instance", world_.instance},
                  {"code_version", world_.settings.code_version},
                  {"models", names->size()}};
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    for (const auto& model : *names) {
      auto epoch = store::take_model_lock(tx, model.name, world_.instance, now());
      if (!epoch) return std::unexpected(epoch.error());
      auto stored = store::find_desired_route(tx, model.name);
      if (!stored) return std::unexpected(stored.error());
      if (!*stored)
        return schema::fail(schema::ErrorCode::corrupt,
                            fmt::format("model {} has no stored route", model.name));
      auto desired = route::route_from_json(nlohmann::json::parse((*stored)->route));
      if (!desired) return std::unexpected(desired.error());
      ModelState state;
      state.epoch = *epoch;
      state.desired = *desired;
      state.desired = next_route(state);
      state.desired.candidate_bp = std::min(desired->candidate_bp, observed_share(observed, *desired));
      schema::EvidenceSubject subject;
      subject.model = model.name;
      auto put = put_route(tx, entries, subject, state.desired,
                           "the daemon started: the smaller of the desired and the observed share");
      if (!put) return put;
      models[model.name] = state;
    }
    return {};
  });
  if (!done) return done;
  models_ = std::move(models);
  auto open = world_.store.read([&](store::Reader& reader) { return store::open_promotions(reader); });
  if (!open) return std::unexpected(open.error());
  for (const auto& row : *open) {
    auto live = std::make_unique<Live>();
    live->row = row;
    auto loaded = load(*live, row);
    if (!loaded) return loaded;
    live_[row.id] = std::move(live);
  }
  // A stage goes on (and may raise its share again) only once this route was read back: see tick().
  for (const auto& model : *names) {
    ensure_route(model.name);
    if (auto* live = holder(model.name); live != nullptr && models_.at(model.name).agreed) go_on(*live);
    start_next(model.name);
  }
  return {};
}

/// The daemon's own time goes on by the monotonic clock; that the system's wall clock left it is recorded, at
/// most kMaxClockEntries times in an hour.
void Core::note_clock() {
  const auto offset = world_.clock.wall_offset_us();
  const auto step = offset - wall_offset_us_;
  if (std::abs(step) <= world_.settings.clock_step_ms * 1'000) return;
  if (now() - clock_hour_us_ >= kHourUs) {
    clock_hour_us_ = now();
    clock_entries_ = 0;
  }
  if (clock_entries_ >= kMaxClockEntries) return;
  auto done = commit("clock step", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::clock_stepped;
    entry.actor = kDaemonActor;
    entry.body = {{"step_us", step}, {"offset_us", offset}};
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    return {};
  });
  if (!done) return warn(fmt::format("a step of the clock is not recorded yet: {}", done.error().describe()));
  wall_offset_us_ = offset;
  ++clock_entries_;
}

/// Applies what the data plane does not hold, once its time has come.
void Core::restore_routes() {
  const auto time = now();
  for (auto& [name, model] : models_) {
    if (model.agreed || time < model.retry_at_us) continue;
    ensure_route(name);
    auto* live = holder(name);
    if (model.agreed && live != nullptr && live->retry_at_us == 0) go_on(*live);
  }
}

std::int64_t Core::tick() {
  const auto time = now();
  note_clock();
  if (time >= next_heartbeat_us_) {
    heartbeat();
    next_heartbeat_us_ = time + world_.settings.heartbeat_ms * 1'000;
  }
  restore_routes();
  if (!losses_.empty() && time >= next_losses_us_) record_losses();
  if (time >= next_telemetry_us_) {
    read_telemetry();
    next_telemetry_us_ = time + world_.settings.telemetry_ms * 1'000;
  }
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const auto& id : ids) tick_promotion(id);
  fire_schedules();
  return std::max<std::int64_t>(std::min(next_heartbeat_us_, next_telemetry_us_) - now(), 0);
}

/// Retries, deadlines and what a stage does when time passes.
void Core::tick_promotion(const std::string& id) {
  auto* live = find(id);
  if (live == nullptr) return;
  if (live->retry_at_us != 0) {
    if (now() < live->retry_at_us) return;
    auto row = world_.store.read([&](store::Reader& reader) { return store::get_promotion(reader, id); });
    if (!row) return stumble(*live, row.error());
    if (store::is_terminal(row->state)) {
      live->row = *row;
      return end(*live);
    }
    const auto failures = live->failures;
    auto loaded = load(*live, *row);
    if (!loaded) return stumble(*live, loaded.error());
    live->evaluating = false;
    live->failures = failures;
    live->retry_at_us = 0;
    if (const auto wanted = live->wanted_end) {
      (void)withdraw(*live, *wanted);
      return;
    }
    if (row->state == PromotionState::queued) return start_next(row->model);
    go_on(*live);
    live = find(id);
    if (live != nullptr && live->retry_at_us == 0) live->failures = 0;
    return;
  }
  check_deadline(*live);
  live = find(id);
  if (live == nullptr) return;
  const bool stage_runs =
      live->run.state == store::StageRunState::running &&
      (live->row.state == PromotionState::running || live->row.state == PromotionState::paused ||
       live->row.state == PromotionState::awaiting_approval);
  if (!stage_runs) return;
  if (live->run.key.stage == schema::to_string(schema::Stage::shadow_runtime)) return check_shadow_end(*live);
  if (live->run.key.stage == schema::to_string(schema::Stage::canary) && live->canary) canary_tick(*live);
}

}  // namespace driftgate::pipeline
