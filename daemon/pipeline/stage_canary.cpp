#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/carried.hpp"
#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/spending_key.hpp"
#include "daemon/store/promotions/spending.hpp"
#include "daemon/store/promotions/stream_states.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using store::PromotionState;

constexpr const char* kStream = "canary";  ///< the one stream state holds all clauses' processes

stages::RequestOutcome outcome_of(route::Outcome outcome) {
  switch (outcome) {
    case route::Outcome::ok:
      return stages::RequestOutcome::ok;
    case route::Outcome::failed:
      return stages::RequestOutcome::failed;
    case route::Outcome::excluded:
      return stages::RequestOutcome::excluded;
  }
  return stages::RequestOutcome::excluded;
}

stages::CanaryObservation observation_of(const route::Observation& seen) {
  stages::CanaryObservation observation;
  observation.key_hash = seen.key_hash;
  observation.keyless = seen.keyless;
  observation.pinned = seen.pinned;
  observation.candidate = seen.candidate;
  observation.candidate_bp = seen.candidate_bp;
  observation.slice = seen.slice;
  observation.outcome = outcome_of(seen.outcome);
  observation.routed_us = seen.routed_us;
  if (seen.outcome == route::Outcome::ok)
    observation.latency = {seen.ttft_ms, seen.inter_token_ms, seen.total_ms};
  observation.prompt_chars = seen.prompt_chars;
  return observation;
}

}  // namespace

/// What the shadow stages of this promotion kept of the incumbent, where this process remembers less.
schema::Result<void> Core::recall_incumbent(const Live& live) {
  auto& remembered = models_.at(live.row.model).incumbent;
  if (remembered.recalled_for(live.row.id)) return {};
  auto kept = world_.store.read(
      [&](store::Reader& reader) -> schema::Result<std::vector<std::string>> {
        auto runs = store::list_stage_runs(reader, live.row.id);
        if (!runs) return std::unexpected(runs.error());
        std::vector<std::string> texts;
        for (const auto& run : *runs) {
          auto state = store::find_stream_state(reader, run.key, kIncumbentStream, "");
          if (!state) return std::unexpected(state.error());
          if (*state) texts.push_back((*state)->state);
        }
        return texts;
      });
  if (!kept) return std::unexpected(kept.error());
  for (const std::string& text : *kept) {
    auto adopted = remembered.adopt(text, live.baseline.id);
    if (!adopted) return adopted;
  }
  remembered.mark_recalled(live.row.id);
  return {};
}

/// Loads the tests' memory, or makes it when the stage begins; spends the streaming stage's α.
schema::Result<void> Core::open_canary(Live& live) {
  if (live.canary) return {};
  auto stored = world_.store.read(
      [&](store::Reader& reader) { return store::find_stream_state(reader, live.run.key, kStream, ""); });
  if (!stored) return std::unexpected(stored.error());
  if (*stored) {
    auto state = stages::CanaryState::deserialise(*live.contract, (*stored)->state);
    if (!state) return std::unexpected(state.error());
    live.canary.emplace(std::move(*state));
    return {};
  }
  auto key = spending_key(world_.store, live.candidate, live.row.contract, live.run.key.stage);
  if (!key) return std::unexpected(key.error());
  auto progress = live.progress;
  auto run = live.run;
  auto spent = commit("spend alpha", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto found = store::spend(tx, *key, schema::sha256_digest(run.key.text()), run.key, now());
    if (!found) return std::unexpected(found.error());
    progress.spent_k = static_cast<std::uint32_t>(found->row.k);
    run.progress = to_json(progress);
    return store::update_stage_run(tx, run);
  });
  if (!spent) return spent;
  live.run = run;
  live.progress = progress;
  auto recalled = recall_incumbent(live);
  if (!recalled) return recalled;
  stages::CanarySettings settings;
  settings.attempt = progress.spent_k;
  settings.seed = live.row.seed;
  settings.incumbent = models_.at(live.row.model).incumbent.seen();
  auto state = stages::CanaryState::create(*live.contract, settings);
  if (!state) return std::unexpected(state.error());
  live.canary.emplace(std::move(*state));
  return {};
}

void Core::run_canary(Live& live) {
  auto opened = open_canary(live);
  if (!opened) {
    // A store that cannot write now is tried again: it spends no further attempt.
    const auto code = opened.error().code;
    const bool passes = code == schema::ErrorCode::storage_full || code == schema::ErrorCode::io ||
                        code == schema::ErrorCode::unavailable;
    if (passes) return stumble(live, opened.error());
    return fail_stage(live, opened.error(), "the canary's tests");
  }
  const auto steps = static_cast<std::uint32_t>(live.contract->canary->steps.size());
  const auto step = static_cast<std::uint32_t>(live.run.step);
  const auto share = live.canary->share_of_step(std::min(step, steps - 1));
  const auto& desired = models_.at(live.row.model).desired;
  const bool routed = desired.candidate && desired.candidate->version == live.row.candidate &&
                      desired.stage_key == live.run.key.text() && desired.candidate_bp == share;
  if (live.progress.phase.empty() || !routed) {
    // The first step, or the share that a restart held back until the data plane could be read.
    return go_to_step(
        live, step, share, {},
        live.progress.phase.empty() ? "the canary begins" : "the route was read back; the step goes on");
  }
  ensure_route(live.row.model);
}

/// Commits the share of a step as desired; the step begins when it was read back.
void Core::go_to_step(Live& live, std::uint32_t step, std::uint32_t share_bp, const Work& also,
                      const std::string& reason, const stages::CanaryDecision* decision) {
  auto& model = models_.at(live.row.model);
  auto route = next_route(model);
  // What an earlier promotion sent to its fallback ends where this one's canary begins.
  const bool begins = live.progress.phase.empty();
  if (decision != nullptr || begins)
    route = with_ladder(route, live, decision ? *decision : stages::CanaryDecision{});
  route.stage_key = live.run.key.text();
  route.seed = live.row.seed;
  route.candidate = arm(live.candidate);
  route.candidate_bp = share_bp;
  auto row = live.row;
  auto run = live.run;
  auto progress = live.progress;
  const bool same_step = !progress.phase.empty() && run.step == step && !also;
  progress.phase = same_step ? progress.phase : "applying";
  progress.share_bp = share_bp;
  progress.approval_digest.clear();
  run.step = step;
  run.progress = to_json(progress);
  row.traffic = store::Traffic::live;
  row.state = row.state == PromotionState::awaiting_approval ? PromotionState::running : row.state;
  row.deadline_us = row.state == PromotionState::paused ? row.deadline_us : std::nullopt;
  row.reason = reason;
  const auto steps = live.contract->canary->steps.size();
  const auto text = step >= steps ? fmt::format("bake at {} bp", share_bp)
                                  : fmt::format("step {} of {}: {} bp", step + 1, steps, share_bp);
  auto done = commit("go to canary step", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (also) {
      auto more = also(tx, entries);
      if (!more) return more;
    }
    auto put = live.canary ? put_canary(tx, run, live.canary->serialise()) : store::update_stage_run(tx, run);
    if (!put) return put;
    auto routed = put_route(tx, entries, subject_of(row, live.candidate.checkpoint, &run.key), route, text);
    if (!routed) return routed;
    return record_state(tx, entries, live, row, run, {});
  });
  if (!done) return stumble(live, done.error());
  live.row = row;
  live.run = run;
  live.progress = progress;
  model.desired = route;
  model.agreed = false;
  model.kept_safe = false;
  model.retry_at_us = 0;
  ensure_route(live.row.model);
}

/// The route that a phase waited for was read back and recorded.
void Core::step_applied(Live& live) {
  if (live.run.key.stage == schema::to_string(schema::Stage::canary)) return canary_step_applied(live);
  auto run = live.run;
  auto progress = live.progress;
  const bool stopped = progress.phase == "stopping";
  progress.phase = stopped ? "rescoring" : "mirroring";
  if (!stopped) {
    run.step_started_us = now();
    run.planned_end_us = now() + live.contract->shadow.min_duration_ms * 1'000;
  }
  run.progress = to_json(progress);
  auto done =
      commit("shadow phase", [&](store::Tx& tx, Entries&) { return store::update_stage_run(tx, run); });
  if (!done) return stumble(live, done.error());
  live.run = run;
  live.progress = progress;
  if (stopped && live.row.state == PromotionState::running) rescore(live);
}

void Core::canary_step_applied(Live& live) {
  auto opened = open_canary(live);
  if (!opened) return stumble(live, opened.error());
  auto run = live.run;
  auto progress = live.progress;
  const auto step = static_cast<std::uint32_t>(run.step);
  const auto steps = static_cast<std::uint32_t>(live.contract->canary->steps.size());
  const auto share = live.canary->share_of_step(std::min(step, steps - 1));
  if (models_.at(live.row.model).desired.candidate_bp < std::min(share, progress.share_bp)) {
    // A restart held the share back: the step begins when all of it was read back.
    return go_to_step(live, step, progress.share_bp, {}, "the route was read back; the step goes on");
  }
  live.canary->begin_step(step);
  progress.phase = step >= steps ? "baking" : "ramping";
  progress.keys_in_step = 0;
  run.step_started_us = now();
  run.progress = to_json(progress);
  auto done = commit("begin canary step",
                     [&](store::Tx& tx, Entries&) { return put_canary(tx, run, live.canary->serialise()); });
  if (!done) {
    live.canary.reset();
    return stumble(live, done.error());
  }
  live.run = run;
  live.progress = progress;
}

/// The tests' memory and the run's row, in the caller's transaction.
schema::Result<void> Core::put_canary(store::Tx& tx, store::StageRunRow& run,
                                      const std::string& state) const {
  run.watermark += 1;
  store::StreamStateRow row;
  row.stage = run.key;
  row.clause = kStream;
  row.watermark = run.watermark;
  row.state = state;
  auto put = store::put_stream_state(tx, row);
  if (!put) return put;
  return store::update_stage_run(tx, run);
}

/// One window: its observations, then one decision, all in the transaction that consumes it.
bool Core::canary_window(Live& live, const route::Window& window, const Work& consume) {
  auto opened = open_canary(live);
  if (!opened) {
    stumble(live, opened.error());
    return false;
  }
  if (live.canary->begin_window(window.router_id, window.number)) {
    for (const auto& seen : window.observations) live.canary->observe(observation_of(seen));
  }
  live.progress.last_window_us = now();
  return decide_canary(live, consume);
}

/// Without windows only silence can be decided on: freeze, then revert.
void Core::canary_tick(Live& live) {
  follow_sampling(live);
  const auto& plan = *live.contract->canary;
  const auto newest = std::max(live.progress.last_window_us, live.run.step_started_us);
  const auto age_ms = (now() - newest) / 1'000;
  if (live.progress.phase == "applying" || live.progress.phase.empty() || age_ms < plan.freeze_after_ms)
    return;
  if (live.progress.last_action == stages::to_string(stages::CanaryAction::freeze) &&
      age_ms < plan.revert_after_ms)
    return;
  (void)decide_canary(live, {});
}

bool Core::decide_canary(Live& live, const Work& also) {
  auto approved = is_approved(live);
  if (!approved) {
    stumble(live, approved.error());
    return false;
  }
  const auto newest = std::max(live.progress.last_window_us, live.run.step_started_us);
  stages::CanaryContext context;
  context.now_ms = now() / 1'000;
  context.step = static_cast<std::uint32_t>(live.run.step);
  context.step_started_ms = live.run.step_started_us / 1'000;
  context.telemetry_age_ms = std::max<std::int64_t>(0, (now() - newest) / 1'000);
  context.paused = live.row.state == PromotionState::paused || live.progress.phase == "applying" ||
                   !models_.at(live.row.model).agreed || blackout_of(live.row.model) != nullptr;
  context.approved = *approved;
  auto carried = carry_signals(world_.store, *live.contract, live.row.id, now(), context);
  if (!carried) {
    stumble(live, carried.error());
    return false;
  }
  auto decision = live.canary->decide(context);
  auto& progress = live.progress;
  progress.advance_proven = decision.advance_proven;
  progress.keys_in_step = decision.keys_in_step;
  progress.exposed_requests = decision.exposed_requests;
  progress.exposed_keys = decision.exposed_keys;
  progress.failed_requests_candidate = decision.failed_requests_candidate;
  progress.failed_requests_incumbent = decision.failed_requests_incumbent;
  progress.first_failure_us = decision.first_failure_us.value_or(0);
  for (const auto& verdict : decision.verdicts)
    progress.max_e_value = std::max(progress.max_e_value, verdict.e_value.value_or(1));
  return act(live, decision, also);
}

}  // namespace driftgate::pipeline
