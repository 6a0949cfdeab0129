#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/router_windows.hpp"

namespace driftgate::pipeline {
namespace {

using store::PromotionState;

constexpr std::size_t kWindowsPerRead = 16;
constexpr std::uint64_t kMaxMissing = 1'000'000;  ///< windows that one gap may name

/// By the promotion's row: while it stumbles its run may not be loaded.
bool is_of_running_stage(const route::Window& window, const Live& live) {
  const store::StageKey key{live.row.id, live.row.stage, live.row.attempt};
  const bool ended = live.run.key == key && live.run.state != store::StageRunState::running;
  return window.stage_key == key.text() && !ended;
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
      router_id_ = window.router_id;
      last_window_ = window.number;
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
  const auto missing = window.number - *watermark - 1;
  if (missing > kMaxMissing)
    return schema::fail(schema::ErrorCode::corrupt, "the router's window numbers make no sense");
  const Work consume = [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    for (auto number = *watermark + 1; number <= window.number; ++number) {
      auto taken = store::consume_window(tx, window.router_id, number, now());
      if (!taken) return std::unexpected(taken.error());
    }
    return {};
  };
  if (const auto model = models_.find(window.model); model != models_.end()) {
    model->second.last_window_us = now();  // ages are by this clock, never by the router's
  }
  auto* live = holder(window.model);
  const bool own = live != nullptr && is_of_running_stage(window, *live);
  const bool counts = own && live->retry_at_us == 0;
  if (own && !counts) {
    return schema::fail(schema::ErrorCode::unavailable,
                        fmt::format("promotion {} is being read again first", live->row.id));
  }
  if (!counts) return commit("consume window", consume);
  if (missing > 0 || window.dropped > 0) {
    warn(
        fmt::format("{} windows and {} observations of {} were lost", missing, window.dropped, window.model));
    const auto reason =
        fmt::format("telemetry was lost ({} windows, {} observations): the measurement is broken", missing,
                    window.dropped);
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
  shadow_window(*live, progress, window);
  run.watermark += 1;
  run.progress = to_json(progress);
  auto done = commit("shadow window", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto consumed = consume(tx, entries);
    if (!consumed) return consumed;
    return store::update_stage_run(tx, run);
  });
  if (!done) return done;
  live->run = run;
  live->progress = progress;
  check_shadow_end(*live);
  return {};
}

}  // namespace driftgate::pipeline
