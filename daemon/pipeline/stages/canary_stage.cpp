#include "daemon/pipeline/stages/canary_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "daemon/pipeline/machine/ladder.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/stages/carried_signals.hpp"
#include "daemon/pipeline/stages/live_points.hpp"
#include "daemon/pipeline/stages/observations.hpp"
#include "daemon/pipeline/stages/step.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/stream_states.hpp"
#include "daemon/store/registry/engines.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

constexpr int kMostReasons = 5;  // of a decision, shown while the canary waits

/// α of the run, spent with the run's row; then nothing is spent again for this run.
schema::Result<void> spend(Context& context, Live& live) {
  auto key = TRY(context.spending_key(live));
  auto progress = live.progress;
  auto run = live.run;
  auto spent = context.commit_rows("spend alpha", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto found = TRY(store::spend(tx, key, schema::sha256_digest(run.key.text()), run.key, context.now()));
    progress.spent_k = static_cast<std::uint32_t>(found.row.k);
    run.progress = to_json(progress);
    return store::update_stage_run(tx, run);
  });
  if (!spent) return spent;
  live.run = run;
  live.progress = progress;
  return {};
}

/// Tests that have seen nothing, at the levels of the k-th run.
schema::Result<stages::CanaryState> new_tests(Context& context, const Live& live, std::uint32_t k) {
  stages::CanarySettings settings;
  settings.attempt = k;
  settings.seed = live.row.seed;
  settings.incumbent = context.model_of(live)->incumbent.failures();
  settings.incumbent_latency = context.model_of(live)->incumbent.latencies();
  return stages::CanaryState::create(*live.contract, settings);
}

/// Loads the tests' memory, or makes it when the stage begins: for the run that would be the next one, whose
/// α is not spent before the first window.
schema::Result<void> open_tests(Context& context, Live& live) {
  if (live.canary) return {};
  auto stored = TRY(context.world.store.read([&](store::Reader& reader) {
    return store::find_stream_state(reader, live.run.key, kCanaryStream, "");
  }));
  if (stored) {
    auto state = TRY(stages::CanaryState::deserialise(*live.contract, stored->state));
    live.canary.emplace(std::move(state));
    return {};
  }
  TRY(recall_incumbent(context, live));
  const auto k = TRY(context.next_run(live));
  auto state = TRY(new_tests(context, live, k));
  live.canary.emplace(std::move(state));
  return {};
}

/// Spends α before the tests look at anything. When another promotion of the same checkpoint, kernel and
/// contract took the run that these were made for, they are made again for the one that is spent.
schema::Result<void> spend_before_window(Context& context, Live& live) {
  if (live.progress.spent_k == 0) TRY(spend(context, live));
  if (live.canary->run() == live.progress.spent_k) return {};
  auto state = TRY(new_tests(context, live, live.progress.spent_k));
  if (live.progress.phase != "applying") state.begin_step(static_cast<std::uint32_t>(live.run.step));
  live.canary.emplace(std::move(state));
  return {};
}

std::uint32_t share_of(const Live& live, std::uint32_t step) {
  const auto steps = static_cast<std::uint32_t>(live.contract->canary->steps.size());
  return live.canary->share_of_step(std::min(step, steps - 1));
}

/// When the candidate's telemetry was last heard of.
std::int64_t newest_us(const Live& live, const StageProgress& progress) {
  return std::max(progress.last_window_us, live.run.step_started_us);
}

/// No share grows while the candidate's engine does not answer, or is only tried.
void note_outage(const Context& context, const Live& live, stages::CanaryContext& asked) {
  const auto found = context.outages.find(live.candidate.base_url);
  if (found == context.outages.end()) return;
  const auto& outage = found->second;
  if (!asked.paused) asked.pause_reason = "the candidate's engine does not answer";
  asked.paused = true;
  if (outage.trying) return;
  const auto open_ms = std::max<std::int64_t>(0, (context.now() - outage.opened_us) / 1'000);
  asked.engine_down = stages::EngineDown{open_ms, outage.failures, outage.reason, outage.first_failure_us};
}

/// The context that the tests decide in. Ages are by the daemon's clock.
schema::Result<stages::CanaryContext> context_of(Context& context, const Live& live,
                                                 const StageProgress& progress) {
  auto approved = TRY(is_approved(context, live));
  const auto now = context.now();
  stages::CanaryContext asked;
  asked.now_ms = now / 1'000;
  asked.step = static_cast<std::uint32_t>(live.run.step);
  asked.step_started_ms = live.run.step_started_us / 1'000;
  asked.telemetry_age_ms = std::max<std::int64_t>(0, (now - newest_us(live, progress)) / 1'000);
  const auto* const blackout = context.blackout_of(live.row.model);
  const bool by_people = live.row.state == store::PromotionState::paused;
  const bool applying = progress.phase == "applying" || !context.model_of(live)->agreed;
  asked.paused = by_people || applying || blackout != nullptr;
  if (!by_people && applying) asked.pause_reason = "the route is not in force yet";
  if (!by_people && !applying && blackout)
    asked.pause_reason = fmt::format("the blackout '{}' lasts", blackout->text);
  asked.approved = approved;
  note_outage(context, live, asked);
  TRY(carry_signals(context.world.store, *live.contract, live.row.id, now, asked));
  return asked;
}

/// Writes a point of the run's series with the decision that it is of.
Work keep_point(const store::StageKey& run, store::LivePoint point) {
  return [run, point = std::move(point)](store::Tx& tx, Entries&) -> schema::Result<void> {
    return store::add_live_point(tx, run, point);
  };
}

/// A recovery action can hurt too: traffic moves to the fallback engine only when that can take it.
std::optional<Capacity> check_capacity(Context& context, const Live& live, stages::CanaryDecision& decision) {
  auto facts = machine::asked_of_fallback(context.facts(live), decision);
  if (!facts) return std::nullopt;
  if (!facts->engine.empty()) {
    auto engine = look_up(context.world.store, store::find_engine, live.fallback.engine);
    if (engine && *engine) facts->max_requests_per_second = (*engine)->max_requests_per_second;
    if (auto healthy = context.world.health(live.fallback.base_url); !healthy)
      facts->unhealthy = healthy.error();
  }
  auto capacity = judge_capacity(*facts);
  if (capacity.enough && decision.fallback_slices.size() > route::kMaxRouteSlices) {
    capacity.enough = false;
    capacity.text = fmt::format("a route has at most {} slices", route::kMaxRouteSlices);
  }
  if (!capacity.enough) machine::roll_back_instead(decision, capacity);
  return capacity;
}

/// One decision of the tests as they are now, after `window` if it is not null.
schema::Result<Change> decide(Context& context, Live& live, const route::Window* window, Change change) {
  if (!change.progress) change.progress = live.progress;
  auto& progress = *change.progress;
  auto asked = TRY(context_of(context, live, progress));
  auto decision = live.canary->decide(asked);
  progress.advance_proven = decision.advance_proven;
  progress.keys_in_step = decision.keys_in_step;
  progress.exposed_requests = decision.exposed_requests;
  progress.exposed_keys = decision.exposed_keys;
  progress.failed_requests_candidate = decision.failed_requests_candidate;
  progress.failed_requests_incumbent = decision.failed_requests_incumbent;
  progress.first_failure_us = decision.first_failure_us.value_or(0);
  for (const auto& verdict : decision.verdicts)
    progress.max_e_value = std::max(progress.max_e_value, verdict.e_value.value_or(1));
  progress.waits_for = fmt::format("{}", fmt::join(decision.reasons | std::views::take(kMostReasons), "\n"));
  const auto capacity = check_capacity(context, live, decision);
  const auto facts = context.facts(live);
  auto point = canary_point(progress, live.run.step, decision, window, facts.now_us);
  for (auto& entry : machine::order_entries(facts, decision, capacity))
    change.orders.push_back(std::move(entry));
  auto decided = machine::decide(facts, decision, context.new_id("bl"), std::move(change));
  decided.rows.push_back(keep_point(live.run.key, std::move(point)));
  decided.figures = figures_of(schema::to_string(schema::Stage::canary), decision.verdicts, context.now());
  return decided;
}

}  // namespace

schema::Result<void> recall_incumbent(Context& context, const Live& live) {
  auto& remembered = context.model_of(live)->incumbent;
  if (remembered.recalled_for(live.row.id)) return {};
  auto kept =
      context.world.store.read([&](store::Reader& reader) -> schema::Result<std::vector<std::string>> {
        auto runs = TRY(store::list_stage_runs(reader, live.row.id));
        std::vector<std::string> texts;
        for (const auto& run : runs) {
          auto state = TRY(store::find_stream_state(reader, run.key, kIncumbentStream, ""));
          if (state) texts.push_back(state->state);
        }
        return texts;
      });
  if (!kept) return std::unexpected(kept.error());
  for (const std::string& text : *kept) TRY(remembered.adopt(text, live.baseline.id));
  remembered.mark_recalled(live.row.id);
  return {};
}

schema::Result<stages::Promoted> promoted_by_canary(Context& context, Live& live) {
  TRY(open_tests(context, live));
  return live.canary->promoted();
}

StageStep canary_step(Context& context, Live& live) {
  auto opened = open_tests(context, live);
  if (!opened) {
    // A store that cannot write now is tried again: it spends no further attempt.
    const auto code = opened.error().code;
    const bool passes = code == schema::ErrorCode::storage_full || code == schema::ErrorCode::io ||
                        code == schema::ErrorCode::unavailable;
    if (passes) return Retry{opened.error()};
    return AttemptFailed{opened.error(), "the canary's tests"};
  }
  const auto step = static_cast<std::uint32_t>(live.run.step);
  const auto share = share_of(live, step);
  const auto& desired = context.model_of(live)->desired;
  const bool routed = desired.candidate && desired.candidate->version == live.row.candidate &&
                      desired.stage_key == live.run.key.text() && desired.candidate_bp == share;
  const bool begins = live.progress.phase.empty();
  if (begins || !routed) {
    // The first step, or the share that a restart held back until the data plane could be read.
    return machine::go_to_step(
        context.facts(live),
        {step, share, begins ? "the canary begins" : "the route was read back; the step goes on"});
  }
  return Change{.effects = {ApplyRoute{live.row.model}}};
}

schema::Result<Change> canary_route_applied(Context& context, Live& live) {
  TRY(open_tests(context, live));
  const auto step = static_cast<std::uint32_t>(live.run.step);
  const auto wanted = live.progress.share_bp;
  const auto& desired = context.model_of(live)->desired;
  if (desired.candidate_bp < std::min(share_of(live, step), wanted)) {
    // A restart held the share back: the step begins when all of it was read back.
    return machine::go_to_step(context.facts(live),
                               {step, wanted, "the route was read back; the step goes on"});
  }
  live.canary->begin_step(step);
  return machine::begin_step(context.facts(live), live.canary->serialise());
}

schema::Result<Change> canary_window(Context& context, Live& live, const route::Window& window,
                                     Change change) {
  TRY(open_tests(context, live));
  TRY(spend_before_window(context, live));
  if (live.canary->begin_window(window.router_id, window.number)) {
    for (const auto& seen : window.observations) live.canary->observe(observation_of(seen));
  }
  change.progress = live.progress;
  change.progress->last_window_us = context.now();
  return decide(context, live, &window, std::move(change));
}

bool is_silent(const Context& context, const Live& live) {
  const auto& plan = *live.contract->canary;
  const auto& progress = live.progress;
  const auto age_ms = (context.now() - newest_us(live, progress)) / 1'000;
  if (progress.phase == "applying" || progress.phase.empty() || age_ms < plan.freeze_after_ms) return false;
  const bool frozen = progress.last_action == stages::to_string(stages::CanaryAction::freeze);
  return !frozen || age_ms >= plan.revert_after_ms;
}

schema::Result<Change> canary_decision(Context& context, Live& live, Change change) {
  return decide(context, live, nullptr, std::move(change));
}

}  // namespace driftgate::pipeline
