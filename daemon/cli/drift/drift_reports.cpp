#include "daemon/cli/drift/drift_reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "daemon/cli/output.hpp"
#include "daemon/drift/reports/reports.hpp"

namespace driftgate::cli {

namespace {

using schema::Result;

struct Format {
  std::string_view name;
  std::string (*render)(const drift::DriftReport&);
};
constexpr std::array kFormats{Format{"junit", drift::report_junit},
                              Format{"markdown", drift::report_markdown}, Format{"html", drift::report_html}};

}  // namespace

Result<std::vector<ReportFile>> report_files(const std::vector<std::string>& arguments) {
  std::vector<ReportFile> out;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const auto* const format = std::ranges::find(kFormats, std::string_view(name), &Format::name);
    if (format == kFormats.end() || equals == std::string::npos || equals + 1 == argument.size()) {
      return schema::fail(
          schema::ErrorCode::invalid_argument,
          fmt::format("--report {}: expected junit=FILE, markdown=FILE or html=FILE", printable(argument)));
    }
    out.push_back({format->render, {"--report " + name, argument.substr(equals + 1)}});
  }
  return out;
}

Result<void> write_reports(const std::vector<ReportFile>& files, const drift::DriftReport& report) {
  Result<void> out;
  for (const ReportFile& file : files) {
    auto written = write_file(file.output.path, file.render(report));
    if (out) out = std::move(written);
  }
  return out;
}

}  // namespace driftgate::cli
