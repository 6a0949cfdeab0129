#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/promotions/router_windows.hpp"
#include "daemon/store/promotions/stream_states.hpp"

namespace driftgate::pipeline {
namespace {

using store::PromotionState;

constexpr std::size_t kWindowsPerRead = 16;
/// By the promotion's row: while it stumbles its run may not be loaded.
bool is_of_running_stage(const route::Window& window, const Live& live) {
  const store::StageKey key{live.row.id, live.row.stage, live.row.attempt};
  const bool ended = live.run.key == key && live.run.state != store::StageRunState::running;
  return window.stage_key == key.text() && !ended;
}

schema::EntryValue::Object replaced_body(const route::Window& window) {
  return {{"action", "log"},
          {"reason",
           "another router process serves since this window: what the one before had observed and not "
           "delivered is not in the measurement"},
          {"figures", schema::EntryValue::Object{{"router", window.router_id}, {"window", window.number}}}};
}

}  // namespace

void Core::heartbeat() {
  auto beaten = world_.driver.heartbeat();
  if (!beaten) warn(fmt::format("the data plane did not take the heartbeat: {}", beaten.error().describe()));
  check_routes();
}

/// Reads closed windows, each consumed in one transaction, and acknowledges what is stored.
void Core::read_telemetry() {
  while (true) {
    auto windows = world_.driver.windows(last_window_, kWindowsPerRead);
    if (!windows) return warn(fmt::format("telemetry cannot be read: {}", windows.error().describe()));
    if (windows->empty()) return;
    for (const auto& window : *windows) {
      auto taken = take_window(window);
      if (!taken)
        return warn(fmt::format("window {} of router {} is not stored yet: {}", window.number,
                                window.router_id, taken.error().describe()));
      last_window_ = {window.router_id, window.number};
      ++windows_seen_;
    }
    (void)world_.driver.acknowledge(last_window_);
    if (windows->size() < kWindowsPerRead) return;
  }
}

/// One window: idempotent by its number. What a gap or a dropped observation breaks is the measurement.
schema::Result<void> Core::take_window(const route::Window& window) {
  auto watermark = world_.store.read(
      [&](store::Reader& reader) { return store::window_watermark(reader, window.router_id); });
  if (!watermark) return std::unexpected(watermark.error());
  if (window.number <= *watermark) return {};
  auto before = world_.store.read(
      [&](store::Reader& reader) { return store::model_window(reader, window.router_id, window.model); });
  if (!before) return std::unexpected(before.error());
  // A router that says nothing of the window before is believed; its `dropped` counts what it lost itself.
  const bool missing = window.previous != 0 && window.previous > before->value_or(*watermark);
  if (const auto model = models_.find(window.model); model != models_.end()) {
    model->second.last_window_us = now();  // ages are by this clock, never by the router's
    model->second.rate.add(window);
    model->second.incumbent.add(window, model->second.desired);
  }
  auto* live = holder(window.model);
  const bool own = live != nullptr && is_of_running_stage(window, *live);
  const bool counts = own && live->retry_at_us == 0;
  // What the router before this one had seen and not delivered died with it.
  std::optional<schema::EntryDraft> replaced;
  if (counts && !before->has_value() && live->run.watermark > 0)
    replaced = draft(*live, schema::EvidenceKind::escalation_decided, {}, replaced_body(window));
  const Work consume = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (replaced) {
      auto added = entries.add(tx, *replaced);
      if (!added) return std::unexpected(added.error());
    }
    auto skipped = store::skip_windows(tx, window.router_id, window.number - 1, now());
    if (!skipped) return skipped;
    auto taken = store::consume_window(tx, window.router_id, window.number, now());
    if (!taken) return std::unexpected(taken.error());
    return store::note_model_window(tx, window.router_id, window.model, window.number);
  };
  if (own && !counts) {
    return schema::fail(schema::ErrorCode::unavailable,
                        fmt::format("promotion {} is being read again first", live->row.id));
  }
  if (!counts) return commit("consume window", consume);
  if (missing || window.dropped > 0) {
    const auto lost = missing ? fmt::format("the window before number {}", window.number)
                              : fmt::format("{} observations", window.dropped);
    warn(fmt::format("telemetry of {} was lost: {}", window.model, lost));
    const auto reason = fmt::format("telemetry was lost ({}): the measurement is broken", lost);
    return withdraw(*live, {.target = PromotionState::errored,
                            .run_state = store::StageRunState::error,
                            .reason = reason,
                            .hold = live->row.traffic == store::Traffic::live,
                            .also = consume});
  }
  if (live->run.key.stage == schema::to_string(schema::Stage::canary)) {
    if (canary_window(*live, window, consume)) return {};
    return schema::fail(schema::ErrorCode::unavailable, "its decision was not committed");
  }
  auto run = live->run;
  auto progress = live->progress;
  // Moved, for it may hold many keys: where the window cannot be stored, the stored counts are gone on from.
  ShadowTally tally = live->tally ? std::move(*live->tally) : ShadowTally(live->progress.shadow_keys);
  live->tally.reset();
  shadow_window(*live, progress, tally, window);
  run.watermark += 1;
  run.progress = to_json(progress);
  auto recalled = recall_incumbent(*live);
  if (!recalled) return recalled;
  const store::StreamStateRow history{
      run.key, std::string(kIncumbentStream), "", run.watermark, models_.at(window.model).incumbent.text()};
  auto done = commit("shadow window", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto consumed = consume(tx, entries);
    if (!consumed) return consumed;
    auto kept = store::put_stream_state(tx, history);
    if (!kept) return kept;
    return store::update_stage_run(tx, run);
  });
  if (!done) return done;
  live->run = run;
  live->progress = progress;
  live->tally = std::move(tally);
  check_shadow_end(*live);
  return {};
}

}  // namespace driftgate::pipeline
