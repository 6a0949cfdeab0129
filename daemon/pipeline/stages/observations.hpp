#pragma once

#include "daemon/route/control/telemetry.hpp"
#include "stages/canary/canary.hpp"

namespace driftgate::pipeline {

/// A request as the tests of canaries and guards count it.
[[nodiscard]] stages::CanaryObservation observation_of(const route::Observation& seen);

}  // namespace driftgate::pipeline
