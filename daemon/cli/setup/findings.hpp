#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace driftgate::cli {

/// Something that is misconfigured.
struct Finding {
  enum class Severity { error, warning };
  Severity severity = Severity::warning;
  std::string where, what, todo;  ///< a setting or a path; the fault; what to do about it
};

/// What a doctor found, and what could not be looked at.
class Findings {
 public:
  void error(std::string where, std::string what, std::string todo) {
    found_.push_back({Finding::Severity::error, std::move(where), std::move(what), std::move(todo)});
  }
  void warning(std::string where, std::string what, std::string todo) {
    found_.push_back({Finding::Severity::warning, std::move(where), std::move(what), std::move(todo)});
  }
  /// `what` was not checked, because of `why`. No finding.
  void skipped(std::string what, std::string why) { skipped_.push_back({std::move(what), std::move(why)}); }
  void checked(std::string what) { checked_.push_back(std::move(what)); }

  [[nodiscard]] const std::vector<Finding>& found() const { return found_; }
  [[nodiscard]] bool empty() const { return found_.empty(); }
  /// Errors first; then what was checked, and what was not.
  [[nodiscard]] std::string text() const;
  /// {"findings": [{"severity", "where", "what", "todo"}], "checked": [text], "not_checked": [{"what",
  /// "why"}]}
  [[nodiscard]] std::string json() const;

 private:
  struct Skipped {
    std::string what, why;
  };
  [[nodiscard]] std::vector<Finding> errors_first() const;
  std::vector<Finding> found_;
  std::vector<Skipped> skipped_;
  std::vector<std::string> checked_;
};

[[nodiscard]] std::string_view to_string(Finding::Severity severity);

}  // namespace driftgate::cli
