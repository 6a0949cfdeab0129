#pragma once

#include <string>

#include "daemon/cli/drift/drift_report.hpp"

/// The parts of `drift_text` on captures that hold only a part of each distribution; empty for full ones.
namespace driftgate::cli {

/// What is known of each row, and what was found about the captures.
[[nodiscard]] std::string partial_text(const DriftReport& report);
/// The metrics that are known by bounds.
[[nodiscard]] std::string bounded_text(const gpu::Summary& summary);
/// The mean over tokens; of a metric that is known by bounds the lower one.
[[nodiscard]] double mean_at_least(const gpu::Summary& summary, schema::Metric metric);

}  // namespace driftgate::cli
