#pragma once

#include <string>

#include "daemon/drift/drift_report.hpp"

namespace driftgate::cli {

/// The report for people.
[[nodiscard]] std::string drift_text(const drift::DriftReport& report);

}  // namespace driftgate::cli
