#include "daemon/cli/drift/drift_partial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "daemon/cli/output.hpp"

namespace driftgate::cli {

namespace {

std::string figure(double value) {
  if (std::isnan(value)) return "-";
  return std::isinf(value) ? "none" : fmt::format("{:.4g}", value);
}

std::string findings_text(const gpu::PartialInfo& partial, bool all) {
  std::string out;
  for (const gpu::CaptureFinding& finding : partial.findings) {
    if (!all && !finding.decides) continue;
    out += fmt::format("{} {}: {}.\n", finding.decides ? "!!" : "warning:", finding.name,
                       printable(finding.text));
  }
  return out;
}

}  // namespace

std::string partial_text(const drift::DriftReport& report) {
  const gpu::PartialInfo& partial = report.table->partial;
  if (partial.mode.empty()) return findings_text(partial, false);
  std::string out =
      partial.mode == "realised"
          ? std::string("Each row contains only the target token, so most figures are bounds.\n")
          : fmt::format(
                "Each row contains {} up to {} of them; the tokens that both kernels list leave out {:.3g}% "
                "of the "
                "mass of train and {:.3g}% of inf, so most figures are bounds.\n",
                partial.mode == "matched" ? "a list of tokens that the caller chose,"
                                          : "the most likely tokens,",
                partial.listed, 100 * report.corpus.tail_train, 100 * report.corpus.tail_inf);
  out += "The worst rows and the slices below show the lower bounds.\n";
  return out + findings_text(partial, true);
}

std::string bounded_text(const gpu::Summary& summary) {
  if (summary.bounds.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const gpu::BoundSummary& b : summary.bounds) {
    rows.push_back({std::string(schema::to_string(b.metric)), figure(b.mean_lower), figure(b.mean_upper),
                    figure(b.sequence_mean_lower), figure(b.sequence_mean_upper), figure(b.max_lower),
                    figure(b.max_upper)});
  }
  return "\nMetrics with bounds (none: no upper bound exists)\n" +
         format_table({"metric", "mean from", "to", "sequence_mean from", "to", "max from", "to"}, rows);
}

double mean_at_least(const gpu::Summary& summary, schema::Metric metric) {
  const auto found = std::ranges::find(summary.bounds, metric, &gpu::BoundSummary::metric);
  return found == summary.bounds.end() ? summary.metrics[static_cast<std::size_t>(metric)].mean
                                       : found->mean_lower;
}

}  // namespace driftgate::cli
