#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/pipeline/context.hpp"
#include "daemon/route/control/telemetry.hpp"

namespace driftgate::pipeline {

/// How far windows were consumed before this one.
struct Consumed {
  std::uint64_t watermark = 0;            ///< of the router: its windows up to here, of every model
  std::optional<std::uint64_t> of_model;  ///< nothing: the first window of this router and model
};

/// What one window changes, decided and not committed yet.
struct WindowChange {
  std::string promotion;  ///< id; "" = the window belongs to no running stage, and only rows are written
  Change change;
  bool retries = false;  ///< a failed COMMIT sends the promotion back to what is stored
  /// To be called once: whether it was committed. May be empty.
  std::function<void(bool)> after;
};

/// The promotion whose stage the window is of; null when there is none.
[[nodiscard]] Live* stage_of(Context& context, const route::Window& window);
/// What the models in memory remember of traffic, once for each window.
void note_window(Context& context, const route::Window& window);
/// Decides on a window that was not consumed before, in the stage that runs, and counts it in the model's
/// guard. What a gap or a dropped observation breaks is the measurement. The change notes the window as
/// consumed of its model.
[[nodiscard]] schema::Result<WindowChange> decide_window(Context& context, const route::Window& window,
                                                         const Consumed& before);

}  // namespace driftgate::pipeline
