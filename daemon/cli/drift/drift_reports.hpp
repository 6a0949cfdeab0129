#pragma once

#include <string>
#include <vector>

#include "daemon/cli/output_files.hpp"
#include "daemon/drift/drift_report.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// A report that `drift --report FORMAT=FILE` asks for.
struct ReportFile {
  std::string (*render)(const drift::DriftReport&) = nullptr;
  OutputFile output;
};

/// Reads the arguments of `--report`. Error: `invalid_argument` for an unknown format and for an argument
/// without a file; the message lists the formats.
[[nodiscard]] schema::Result<std::vector<ReportFile>> report_files(const std::vector<std::string>& arguments);

/// Writes each report. The first error, `io` with its path; the others are written nevertheless.
[[nodiscard]] schema::Result<void> write_reports(const std::vector<ReportFile>& files,
                                                 const drift::DriftReport& report);

}  // namespace driftgate::cli
