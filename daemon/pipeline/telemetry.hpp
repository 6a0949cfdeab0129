#pragma once

#include "daemon/pipeline/context.hpp"
#include "daemon/route/control/telemetry.hpp"

namespace driftgate::pipeline {

/// Consumes one closed window in one transaction, with the decision that follows from it; idempotent by its
/// number. An error: it is to be read again. What a gap or a dropped observation breaks is the measurement.
[[nodiscard]] schema::Result<void> take_window(Context& context, const route::Window& window);

}  // namespace driftgate::pipeline
