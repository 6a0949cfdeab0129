#include "daemon/pipeline/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/figures/standings.hpp"
#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/routes.hpp"
#include "daemon/pipeline/stages/canary_stage.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/pipeline/stages/rescoring.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"

namespace driftgate::pipeline {
namespace {

using schema::Stage;
using store::PromotionState;

/// Steps of the wall clock that are recorded within an hour; later ones add up until the next.
constexpr int kMaxClockEntries = 120;
constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::int64_t kFiguresEvery_us = 200'000;

}  // namespace

/// The daemon's own time follows the monotonic clock. A step of the system's wall clock away from it is
/// recorded, at most kMaxClockEntries times in an hour.
void Coordinator::note_clock() {
  const auto offset = context_.world.clock.wall_offset_us();
  const auto step = offset - wall_offset_us_;
  if (std::abs(step) <= context_.world.settings.clock_step_ms * 1'000) return;
  if (context_.now() - clock_hour_us_ >= kHourUs) {
    clock_hour_us_ = context_.now();
    clock_entries_ = 0;
  }
  if (clock_entries_ >= kMaxClockEntries) return;
  const auto done = context_.commit_entry("clock step", {.time_us = context_.now(),
                                                         .kind = schema::EvidenceKind::clock_stepped,
                                                         .actor = kDaemonActor,
                                                         .body = {{"step_us", step}, {"offset_us", offset}}});
  if (!done)
    return context_.warn(fmt::format("a step of the clock is not recorded yet: {}", done.error().describe()));
  wall_offset_us_ = offset;
  ++clock_entries_;
}

void Coordinator::send_heartbeat() {
  const auto time = context_.now();
  if (time < next_heartbeat_us_) return;
  next_heartbeat_us_ = time + context_.world.settings.heartbeat_ms * 1'000;
  auto beaten = context_.world.driver.heartbeat();
  if (!beaten)
    context_.warn(fmt::format("the data plane did not take the heartbeat: {}", beaten.error().describe()));
  check_routes_held(context_);
}

/// Applies routes that the data plane does not hold and whose retry is due; then resumes what waited for
/// them.
void Coordinator::restore_routes() {
  const auto names = models_to_route(context_);
  if (names.size() > 1) ensure_routes_held(context_, names);
  for (const auto& name : names) {
    const auto& model = context_.models.at(name);
    if (names.size() > 1 && !model.agreed) continue;  // it was just tried
    context_.effects.emplace_back(ApplyRoute{name});
    settle();
    const auto* const live = context_.holder(name);
    if (live != nullptr && context_.models.at(name).agreed)
      context_.effects.emplace_back(EnterStage{live->row.id});
    settle();
  }
}

/// An engine that does not answer is not waited for until a window closes: a canary of it is decided at once.
void Coordinator::follow_breakers() {
  const auto time = context_.now();
  if (time < next_breakers_us_) return;
  next_breakers_us_ = time + context_.world.settings.breakers_ms * 1'000;
  breakers_.look();
  for (const auto& id : breakers_.due()) {
    auto* const live = context_.lookup(id);
    if (live == nullptr) continue;
    commit_decided(*live, canary_decision(context_, *live));
    live->outage_decided = live->retry_at_us == 0;
    settle();
  }
}

void Coordinator::read_telemetry() {
  const auto time = context_.now();
  if (time < next_telemetry_us_) return;
  next_telemetry_us_ = time + context_.world.settings.telemetry_ms * 1'000;
  telemetry_.read();
}

std::int64_t Coordinator::tick() {
  note_clock();
  send_heartbeat();
  restore_routes();
  losses_.record_all();
  follow_breakers();
  read_telemetry();
  std::vector<std::string> ids;
  for (const auto& [id, live] : context_.promotions) ids.push_back(id);
  for (const auto& id : ids) {
    tick_promotion(id);
    settle();
  }
  retry_rollbacks();
  tick_guards(context_);
  settle();
  store_guards(context_);
  schedules_.fire_due();
  reports_.put_due();
  settle();
  tell_figures();
  const auto next = std::min({next_heartbeat_us_, next_telemetry_us_, next_breakers_us_});
  return std::max<std::int64_t>(next - context_.now(), 0);
}

/// Retries, deadlines and what a stage does when time passes.
void Coordinator::tick_promotion(const std::string& id) {
  auto* const live = context_.lookup(id);
  if (live == nullptr) return;
  if (live->retry_at_us != 0) {
    if (context_.now() >= live->retry_at_us) retry(*live);
    return;
  }
  live->failures = 0;
  if (auto expired = machine::expire(context_.facts(*live))) {
    (void)context_.commit_or_retry(*live, std::move(*expired));
    return;
  }
  if (live->run.state != store::StageRunState::running || !stage_is_open(live->row.state)) return;
  if (live->run.key.stage == schema::to_string(Stage::shadow_runtime)) {
    if (live->progress.phase == "mirroring") context_.effects.emplace_back(EnterStage{id});
  } else if (live->run.key.stage == schema::to_string(Stage::canary) && live->canary) {
    follow_sampling(context_, *live);
    if (is_silent(context_, *live)) commit_decided(*live, canary_decision(context_, *live));
  }
}

/// Reloads the promotion and continues from its stored state.
void Coordinator::retry(Live& live) {
  const auto id = live.row.id;
  auto row = look_up(context_.world.store, store::get_promotion, id);
  if (!row) return context_.schedule_retry(live, row.error());
  if (store::is_terminal(row->state)) {
    live.row = *row;
    context_.effects.emplace_back(End{id});
    return;
  }
  auto loaded = context_.load(live, *row);
  if (!loaded) return context_.schedule_retry(live, loaded.error());
  live.evaluating = false;
  live.retry_at_us = 0;
  if (const auto wanted = live.wanted_end) {
    (void)context_.commit_or_retry(live, machine::withdraw(context_.facts(live), *wanted));
  } else if (row->state == PromotionState::queued) {
    context_.effects.emplace_back(StartNext{row->model});
  } else {
    context_.effects.emplace_back(EnterStage{id});
  }
}

/// The end of a job is recorded in one transaction; then its stage continues.
void Coordinator::job_done(const jobs::JobDone& done, const KeptFiles& kept) {
  for (auto& [id, live] : context_.promotions) {
    const auto prefix = job_key(live->run.key, "");
    if (live->run.key.stage.empty() || !done.key.starts_with(prefix)) continue;
    auto listed = look_up(context_.world.store, store::list_jobs, live->run.key);
    if (!listed) return context_.schedule_retry(*live, listed.error());
    const auto job = std::ranges::find(*listed, done.key.substr(prefix.size()), &store::JobRow::name);
    if (job != listed->end() && job->state == store::JobState::running) {
      Change change{.name = "finish job"};
      change.rows.emplace_back([&](store::Tx& tx, Entries& entries) {
        return put_ended_job(tx, entries, context_.facts(*live), *job, done, kept);
      });
      if (!context_.commit_or_retry(*live, std::move(change))) return;
    }
    if (live->row.state == PromotionState::running) context_.effects.emplace_back(EnterStage{id});
    return;
  }
}

void Coordinator::router_replaced(route::RouterLoss loss, std::function<void()> recorded) {
  losses_.add(std::move(loss), std::move(recorded));
  losses_.record_all();
  check_routes_held(context_);
  restore_routes();
}

schema::Result<void> Coordinator::rollback(const std::string& actor, const std::string& id,
                                           const std::string& reason) {
  const auto why = reason.empty() ? std::string("rolled back") : reason;
  if (auto* const live = context_.lookup(id)) return people::roll_back(context_, *live, actor, why);
  auto served = TRY(people::serving_promotion(context_, id));
  if (!served) return {};
  TRY(roll_back_served(*served, {.promotion = id, .actor = actor, .reason = why}));
  if (context_.models.at(served->row.model).agreed) return {};
  return schema::fail(
      schema::ErrorCode::unavailable,
      "the rollback is recorded, but the data plane could not be read back yet; it is being retried");
}

/// A store that cannot record an end now keeps no user from the version before; both ends are tried again.
schema::Result<void> Coordinator::roll_back_served(Live& served, const UnrecordedRollback& wanted) {
  const auto& model = served.row.model;
  const auto ended = people::end_successor(context_, served, wanted.actor);
  settle();
  if (!ended && !concerns_store(ended.error())) return ended;
  auto done = people::revert(context_, served, wanted.actor, wanted.reason);
  settle();
  if (done) context_.rollbacks.erase(model);
  if (done || !concerns_store(done.error())) return done;
  context_.warn(fmt::format("rollback of {}: {}", wanted.promotion, done.error().describe()));
  auto& again = context_.rollbacks[model];
  again = wanted;
  again.failures = wanted.failures + 1;
  again.retry_at_us = context_.now() + retry_wait_us(wanted.failures);
  return done;
}

/// Rollbacks that could not be recorded.
void Coordinator::retry_rollbacks() {
  const auto time = context_.now();
  std::vector<std::string> due;
  for (const auto& [model, wanted] : context_.rollbacks)
    if (time >= wanted.retry_at_us) due.push_back(model);
  for (const auto& model : due) {
    const auto wanted = context_.rollbacks.at(model);
    auto served = people::serving_promotion(context_, wanted.promotion);
    if (served && *served) {
      const auto done = roll_back_served(**served, wanted);
      if (!done && !concerns_store(done.error())) context_.rollbacks.erase(model);  // it never can be
    } else if (served || !concerns_store(served.error())) {
      context_.rollbacks.erase(model);  // it was recorded meanwhile, or another version serves
    }
  }
}

ServiceFigures Coordinator::figures() const {
  const auto [others, failed] = telemetry_.others_seen();
  std::vector<std::string> unrecorded;
  for (const auto& [name, model] : context_.models)
    if (model.kept_safe) unrecorded.push_back(name);
  return {.windows = telemetry_.windows_seen(),
          .others = others,
          .others_failed = failed,
          .guards = context_.guards.size(),
          .guards_alarming = guards_alarming(),
          .guards_unread = context_.guards_to_read.size(),
          .guards_rescoring = guards_rescoring(true),
          .guards_not_rescoring = guards_rescoring(false),
          .telemetry_age_ms = telemetry_age_ms(),
          .route_agrees = routes_agree(),
          .unrecorded = std::move(unrecorded)};
}

/// At the end of a round, so that nobody who asks waits for the loop.
void Coordinator::tell_figures() {
  const auto time = context_.now();
  if (time < next_figures_us_) return;
  next_figures_us_ = time + kFiguresEvery_us;
  context_.figures.stand(standings(context_), figures(), time);
}

std::uint64_t Coordinator::guards_alarming() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(context_.guards, [](const auto& item) { return is_alarming(*item.second); }));
}

std::uint64_t Coordinator::guards_rescoring(bool kept) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(context_.guards, [kept](const auto& item) {
    const LiveGuard& guard = *item.second;
    return guard.contract->guard->rescoring && guard.rescoring.spool.empty() != kept;
  }));
}

bool Coordinator::routes_agree() const {
  return std::ranges::all_of(context_.models, [](const auto& item) { return item.second.agreed; });
}

std::int64_t Coordinator::telemetry_age_ms() const {
  std::int64_t least = -1;
  for (const auto& [name, model] : context_.models) {
    const auto age = pipeline::telemetry_age_ms(model, context_.now());
    if (age >= 0 && (least < 0 || age < least)) least = age;
  }
  return least;
}

}  // namespace driftgate::pipeline
