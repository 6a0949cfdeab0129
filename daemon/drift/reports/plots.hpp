#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/drift/drift_report.hpp"

/// The pictures of the page: inline SVG without style attributes, which the page's policy forbids.
namespace driftgate::drift {

/// One line of a forest plot.
struct ForestRow {
  std::string name, detail;  ///< untrusted: escaped here
  std::string tone;          ///< class of the mark: "good", "bad", "warn" or "quiet"
  double estimate = 0;
  std::optional<double> lower, upper, limit;
};
/// A table with a line for each row: its name, its figures, and the figure with its interval and limit drawn
/// on one scale. `what` names the picture, `first` what each line is of.
[[nodiscard]] std::string forest_plot(const std::string& what, const char* first,
                                      const std::vector<ForestRow>& rows);

/// Which share of rows exceeds each tv, of the corpus, of the slices that drift most, and of the noise
/// floors; empty where tv was not measured.
[[nodiscard]] std::string tail_plot(const DriftReport& report);
/// Mean tv by position in the sequence; empty without full logits.
[[nodiscard]] std::string position_plot(const DriftReport& report);

}  // namespace driftgate::drift
