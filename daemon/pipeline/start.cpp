#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/coordinator.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/routes.hpp"

// How a daemon takes over what is stored and what the data plane holds.
namespace driftgate::pipeline {
namespace {

using Observed = std::map<std::string, route::ObservedRoute>;  ///< by model

/// The candidate's share as the data plane has it, 0 when it cannot be read or is another candidate.
std::uint32_t observed_share(const Observed& observed, const route::ModelRoute& desired) {
  const auto found = observed.find(desired.model);
  if (found == observed.end() || found->second.reverted || !desired.candidate ||
      found->second.route.candidate != desired.candidate)
    return 0;
  return found->second.route.candidate_bp;
}

/// Takes one model's lock; its desired share becomes the smaller of what was desired and what is held.
schema::Result<ModelState> take_lock(store::Tx& tx, Entries& entries, const std::string& name,
                                     const std::string& owner, const Observed& observed,
                                     std::int64_t now_us) {
  auto epoch = TRY(store::take_model_lock(tx, name, owner, now_us));
  auto stored = TRY(store::find_desired_route(tx, name));
  if (!stored)
    return schema::fail(schema::ErrorCode::corrupt, fmt::format("model {} has no stored route", name));
  auto desired = TRY(route::route_from_json(nlohmann::json::parse(stored->route)));
  ModelState state{.epoch = epoch, .desired = desired};
  state.desired = machine::next_route(state);
  state.desired.candidate_bp = std::min(desired.candidate_bp, observed_share(observed, desired));
  TRY(put_route(tx, entries, {.model = name}, state.desired,
                "the daemon started: the smaller of the desired and the observed share", now_us));
  return state;
}

/// By what is stored of the job; what is stored of none may be another daemon's.
jobs::JobFate stored_fate(store::Store& store, const std::string& key) {
  const auto stage = stage_in(key);
  if (!stage) return jobs::JobFate::keep;
  auto fate = jobs::JobFate::keep;
  const auto read = store.read([&](store::Reader& reader) -> schema::Result<void> {
    const auto promotion = TRY(store::find_promotion(reader, stage->promotion));
    if (!promotion) return {};
    const auto listed = TRY(store::list_jobs(reader, *stage));
    const auto job = std::ranges::find(listed, key.substr(stage->text().size() + 1), &store::JobRow::name);
    if (job == listed.end()) return {};
    if (job->ended_us) fate = jobs::JobFate::cancel;
    if (store::is_terminal(promotion->state)) fate = jobs::JobFate::forget;
    return {};
  });
  return read ? fate : jobs::JobFate::keep;
}

}  // namespace

schema::Result<void> Coordinator::read_blackouts() {
  for (const auto& text : context_.world.settings.blackouts) {
    auto parsed = schedule::parse_blackout(text);
    if (!parsed) return schema::wrap(parsed.error(), "the setting schedule.blackouts");
    context_.blackouts.push_back(std::move(*parsed));
  }
  return {};
}

schema::Result<void> Coordinator::take_locks() {
  auto& world = context_.world;
  auto names =
      TRY(look_up(world.store, store::list_models, "", static_cast<std::int64_t>(route::kMaxModels)));
  const auto held = world.driver.observe();
  if (!held) {
    context_.warn(
        fmt::format("the data plane cannot be read at the start: {}; candidates get no traffic until it can",
                    held.error().describe()));
  }
  Observed observed;
  if (held)
    for (const auto& route : *held) observed.emplace(route.route.model, route);
  std::map<std::string, ModelState, std::less<>> models;
  TRY(
      context_.commit_rows("start daemon", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
        TRY(add_entry(tx, entries,
                      {.time_us = context_.now(),
                       .kind = schema::EvidenceKind::daemon_started,
                       .actor = kDaemonActor,
                       .body = {{"instance", world.instance},
                                {"code_version", world.settings.code_version},
                                {"models", names.size()}}}));
        for (const auto& model : names) {
          auto state = TRY(take_lock(tx, entries, model.name, world.instance, observed, context_.now()));
          models[model.name] = std::move(state);
        }
        return {};
      }));
  context_.models = std::move(models);
  return {};
}

schema::Result<void> Coordinator::load_open_promotions() {
  auto open = TRY(look_up(context_.world.store, store::open_promotions));
  for (const auto& row : open) {
    auto live = std::make_unique<Live>();
    TRY(context_.load(*live, row));
    context_.promotions[row.id] = std::move(live);
  }
  return {};
}

schema::Result<void> Coordinator::start() {
  TRY(read_blackouts());
  TRY(reports_.read_setting());
  TRY(take_locks());
  TRY(load_open_promotions());
  // What the daemon before this one had committed and could not tell its runner any more.
  context_.world.runner.drop_left(
      [&store = context_.world.store](const std::string& key) { return stored_fate(store, key); });
  // A stage continues (and may raise its share again) only once this route was read back: see
  // restore_routes().
  restore_routes();
  for (const auto& [name, model] : context_.models) {
    context_.effects.emplace_back(LoadGuard{name});
    context_.effects.emplace_back(StartNext{name});
    settle();
  }
  tell_figures();
  return {};
}

}  // namespace driftgate::pipeline
