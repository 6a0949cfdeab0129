#pragma once

#include <vector>

#include "daemon/pipeline/context.hpp"
#include "daemon/pipeline/figures/model_figures.hpp"
#include "daemon/pipeline/guard/live_guard.hpp"

namespace driftgate::pipeline {

/// Whether something that the guard watches alarms now, or its order waits.
[[nodiscard]] bool is_alarming(const LiveGuard& guard);
/// Of the model's newest telemetry window; -1 = none was seen since the daemon started.
[[nodiscard]] std::int64_t telemetry_age_ms(const ModelState& model, std::int64_t now_us);
/// Every model in memory as it stands, by name.
[[nodiscard]] std::vector<ModelStanding> standings(const Context& context);

}  // namespace driftgate::pipeline
