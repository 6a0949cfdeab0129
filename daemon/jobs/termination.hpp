#pragma once

#include <chrono>

namespace driftgate::jobs {

/// Records SIGTERM instead of ending the process: a time limit that is near, preemption, or a launcher that
/// ends its processes after one of them died.
void record_termination();
/// Whether SIGTERM came.
[[nodiscard]] bool terminated();
/// Whether it came at least this long ago.
[[nodiscard]] bool terminated_before(std::chrono::milliseconds age);

}  // namespace driftgate::jobs
