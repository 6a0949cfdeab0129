#include "daemon/pipeline/telemetry.hpp"

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

/// How far windows were consumed before this one.
struct Consumed {
  std::uint64_t watermark = 0;            ///< of the router
  std::optional<std::uint64_t> of_model;  ///< nothing: the first window of this router and model
};

schema::Result<Consumed> read_consumed(Context& context, const route::Window& window) {
  return context.world.store.read([&](store::Reader& reader) -> schema::Result<Consumed> {
    auto watermark = TRY(store::window_watermark(reader, window.router_id));
    auto of_model = TRY(store::model_window(reader, window.router_id, window.model));
    return Consumed{watermark, of_model};
  });
}

/// The rows that say that the window was taken.
Work consume(const route::Window& window, std::int64_t now_us) {
  return [router = window.router_id, model = window.model, number = window.number, now_us](
             store::Tx& tx, Entries&) -> schema::Result<void> {
    TRY(store::skip_windows(tx, router, number - 1, now_us));
    TRY(store::consume_window(tx, router, number, now_us));
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

schema::Result<void> shadow_window(Context& context, Live& live, const route::Window& window, Change change) {
  TRY(recall_incumbent(context, live));
  // Moved, since it may hold many keys. If the window cannot be stored, the stored counts are used instead.
  ShadowTally tally = live.tally ? std::move(*live.tally) : ShadowTally(live.progress.shadow_keys);
  live.tally.reset();
  tally.add(window, live.contract->slices.critical);
  change.name = "shadow window";
  change.progress = live.progress;
  change.progress->shadow_keys = tally.text();
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
  auto done = context.commit_change(live, std::move(change));
  if (done) live.tally = std::move(tally);
  return done;
}

schema::Result<void> stage_window(Context& context, Live& live, const route::Window& window, Change change) {
  if (live.run.key.stage != schema::to_string(schema::Stage::canary))
    return shadow_window(context, live, window, std::move(change));
  auto decided = canary_window(context, live, window, std::move(change));
  if (decided) return context.commit_or_retry(live, std::move(*decided));
  context.schedule_retry(live, decided.error());
  return std::unexpected(decided.error());
}

schema::Result<void> end_unmeasured(Context& context, Live& live, const std::string& lost, Change change) {
  context.warn(fmt::format("telemetry of {} was lost: {}", live.row.model, lost));
  const Withdrawal end{.target = store::PromotionState::errored,
                       .run_state = store::StageRunState::error,
                       .reason = fmt::format("telemetry was lost ({}): the measurement is broken", lost),
                       .hold = live.row.traffic == store::Traffic::live};
  return context.commit_or_retry(live, machine::withdraw(context.facts(live), end, std::move(change)));
}

/// Consumes the window with what else is counted of it (`rows`), by the stage that runs, if one does.
schema::Result<void> consume_in_stage(Context& context, Live* live, const route::Window& window,
                                      const Consumed& before, std::vector<Work> rows) {
  rows.push_back(consume(window, context.now()));
  if (live == nullptr) {
    return context.commit_rows("consume window",
                               [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
                                 for (const Work& work : rows) TRY(work(tx, entries));
                                 return {};
                               });
  }
  Change change{.rows = std::move(rows)};
  // What the router before this one had seen and not delivered died with it.
  if (!before.of_model && live->run.watermark > 0)
    change.orders.push_back(
        draft(context.facts(*live), schema::EvidenceKind::escalation_decided, {}, replaced_body(window)));
  const auto lost = lost_text(window, before);
  return lost.empty() ? stage_window(context, *live, window, std::move(change))
                      : end_unmeasured(context, *live, lost, std::move(change));
}

}  // namespace

schema::Result<void> take_window(Context& context, const route::Window& window) {
  const auto before = TRY(read_consumed(context, window));
  if (window.number <= before.watermark) return {};
  if (const auto model = context.models.find(window.model); model != context.models.end()) {
    model->second.last_window_us = context.now();  // ages are by this clock, never by the router's
    model->second.rate.add(window);
    model->second.incumbent.add(window, model->second.desired);
  }
  auto* live = context.holder(window.model);
  if (live != nullptr && !is_of_running_stage(window, *live)) live = nullptr;
  if (live != nullptr && live->retry_at_us != 0) {
    return schema::fail(schema::ErrorCode::unavailable,
                        fmt::format("promotion {} is being reloaded from the store first", live->row.id));
  }
  std::vector<Work> rows;
  const auto guarded = guard_window(context, window);
  if (guarded) rows.push_back(guarded->rows);
  auto done = consume_in_stage(context, live, window, before, std::move(rows));
  if (guarded) finish_guard_window(context, *guarded, done.has_value());
  return done;
}

}  // namespace driftgate::pipeline
