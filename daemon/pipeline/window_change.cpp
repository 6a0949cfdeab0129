#include "daemon/pipeline/window_change.hpp"

#include <fmt/format.h>

#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/stages/canary_stage.hpp"
#include "daemon/pipeline/stages/live_points.hpp"
#include "daemon/store/promotions/router_windows.hpp"
#include "daemon/store/promotions/stream_states.hpp"

namespace driftgate::pipeline {
namespace {

/// By the promotion's row: while it waits for a retry its run may not be loaded.
bool is_of_running_stage(const route::Window& window, const Live& live) {
  const store::StageKey key{live.row.id, live.row.stage, live.row.attempt};
  const bool ended = live.run.key == key && live.run.state != store::StageRunState::running;
  return window.stage_key == key.text() && !ended;
}

schema::EntryValue::Object replaced_body(const route::Window& window) {
  return {{"action", "log"},
          {"reason",
           "another router process serves from this window on: what the previous one had observed and not "
           "delivered is not in the measurement"},
          {"figures", schema::EntryValue::Object{{"router", window.router_id}, {"window", window.number}}}};
}

/// The row that says that the window was taken.
Work consume(const route::Window& window) {
  return [router = window.router_id, model = window.model, number = window.number](store::Tx& tx, Entries&) {
    return store::note_model_window(tx, router, model, number);
  };
}

/// What of the telemetry never arrived; "" = nothing.
std::string lost_text(const route::Window& window, const Consumed& before) {
  // A router that does not name the previous window is trusted; its `dropped` counts what it lost itself.
  if (window.previous != 0 && window.previous > before.of_model.value_or(before.watermark))
    return fmt::format("the window before number {}", window.number);
  return window.dropped > 0 ? fmt::format("{} observations", window.dropped) : std::string();
}

schema::Result<WindowChange> shadow_window(Context& context, Live& live, const route::Window& window,
                                           Change change) {
  TRY(recall_incumbent(context, live));
  // Moved, since it may hold many keys. If the window cannot be stored, the stored counts are used instead.
  auto tally = std::make_shared<ShadowTally>(live.tally ? std::move(*live.tally)
                                                        : ShadowTally(live.progress.shadow_keys));
  live.tally.reset();
  tally->add(window, live.contract->slices.critical);
  change.name = "shadow window";
  change.progress = live.progress;
  change.progress->shadow_keys = tally->text();
  change.progress->pairs += window.mirrored;
  change.progress->mirror_failed += window.mirror_failed;
  change.progress->mirror_skipped += window.mirror_skipped;
  change.progress->last_window_us = context.now();
  change.run = live.run;
  change.run->watermark += 1;
  const store::StreamStateRow history{live.run.key, std::string(kIncumbentStream), "", change.run->watermark,
                                      context.model_of(live)->incumbent.text()};
  change.rows.emplace_back(
      [history](store::Tx& tx, Entries&) { return store::put_stream_state(tx, history); });
  change.rows.emplace_back(
      [run = live.run.key, point = shadow_point(*change.progress, window, context.now())](
          store::Tx& tx, Entries&) { return store::add_live_point(tx, run, point); });
  if (change.progress->phase == "mirroring" && live.row.state == store::PromotionState::running)
    change.effects.emplace_back(EnterStage{live.row.id});
  return WindowChange{live.row.id, std::move(change), false,
                      [&context, id = live.row.id, run = live.run.key, tally](bool committed) {
                        auto* const still = context.lookup(id);
                        if (committed && still != nullptr && still->run.key == run)
                          still->tally = std::move(*tally);
                      }};
}

schema::Result<WindowChange> stage_window(Context& context, Live& live, const route::Window& window,
                                          Change change) {
  if (live.run.key.stage != schema::to_string(schema::Stage::canary))
    return shadow_window(context, live, window, std::move(change));
  auto decided = canary_window(context, live, window, std::move(change));
  if (decided) return WindowChange{live.row.id, std::move(*decided), true, {}};
  context.schedule_retry(live, decided.error());
  return std::unexpected(decided.error());
}

WindowChange end_unmeasured(Context& context, Live& live, const std::string& lost, Change change) {
  context.warn(fmt::format("telemetry of {} was lost: {}", live.row.model, lost));
  const Withdrawal end{.target = store::PromotionState::errored,
                       .run_state = store::StageRunState::error,
                       .reason = fmt::format("telemetry was lost ({}): the measurement is broken", lost),
                       .hold = live.row.traffic == store::Traffic::live};
  return {live.row.id, machine::withdraw(context.facts(live), end, std::move(change)), true, {}};
}

/// Consumes the window with what else is counted of it (`rows`), by the stage that runs, if one does.
schema::Result<WindowChange> consume_in_stage(Context& context, Live* live, const route::Window& window,
                                              const Consumed& before, std::vector<Work> rows) {
  rows.push_back(consume(window));
  Change change{.name = "consume window", .rows = std::move(rows)};
  if (live == nullptr) return WindowChange{{}, std::move(change), false, {}};
  // What the router before this one had seen and not delivered died with it.
  if (!before.of_model && live->run.watermark > 0)
    change.orders.push_back(
        draft(context.facts(*live), schema::EvidenceKind::escalation_decided, {}, replaced_body(window)));
  const auto lost = lost_text(window, before);
  if (lost.empty()) return stage_window(context, *live, window, std::move(change));
  return end_unmeasured(context, *live, lost, std::move(change));
}

}  // namespace

Live* stage_of(Context& context, const route::Window& window) {
  auto* live = context.holder(window.model);
  return live != nullptr && is_of_running_stage(window, *live) ? live : nullptr;
}

void note_window(Context& context, const route::Window& window) {
  const auto model = context.models.find(window.model);
  if (model == context.models.end()) return;
  model->second.last_window_us = context.now();  // ages are by this clock, never by the router's
  model->second.rate.add(window);
  model->second.incumbent.add(window, model->second.desired);
}

schema::Result<WindowChange> decide_window(Context& context, const route::Window& window,
                                           const Consumed& before) {
  std::vector<Work> rows;
  const auto guarded = guard_window(context, window);
  if (guarded) rows.push_back(guarded->rows);
  auto decided = consume_in_stage(context, stage_of(context, window), window, before, std::move(rows));
  if (!guarded) return decided;
  if (!decided) {
    finish_guard_window(context, *guarded, false);
    return decided;
  }
  decided->after = [&context, step = *guarded, then = std::move(decided->after)](bool committed) {
    if (then) then(committed);
    finish_guard_window(context, step, committed);
  };
  return decided;
}

}  // namespace driftgate::pipeline
