#pragma once

#include <string>

#include "daemon/drift/drift_report.hpp"

/// The parts of `drift_text` about captures that contain only a part of each distribution, and on findings.
namespace driftgate::cli {

/// What each row contains, and the findings about the captures. Of full captures only the findings that
/// decide.
[[nodiscard]] std::string partial_text(const drift::DriftReport& report);
/// The metrics of which only bounds are known; empty for full captures.
[[nodiscard]] std::string bounded_text(const gpu::Summary& summary);
/// The mean over tokens; its lower bound for a metric of which only bounds are known.
[[nodiscard]] double mean_at_least(const gpu::Summary& summary, schema::Metric metric);

}  // namespace driftgate::cli
