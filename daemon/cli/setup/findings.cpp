#include "daemon/cli/setup/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/cli/output.hpp"

namespace driftgate::cli {

std::string_view to_string(Finding::Severity severity) {
  return severity == Finding::Severity::error ? "error" : "warning";
}

std::vector<Finding> Findings::errors_first() const {
  auto sorted = found_;
  std::ranges::stable_sort(sorted, {}, &Finding::severity);
  return sorted;
}

std::string Findings::text() const {
  std::string text;
  for (const auto& finding : errors_first())
    text += fmt::format("{:<8} {}: {}\n         {}\n", to_string(finding.severity), printable(finding.where),
                        printable(finding.what), printable(finding.todo));
  text += fmt::format("{}checked: {}\n", text.empty() ? "" : "\n", fmt::join(checked_, ", "));
  for (const auto& skipped : skipped_)
    text += fmt::format("not checked: {}: {}\n", printable(skipped.what), printable(skipped.why));
  return text + (found_.empty()
                     ? "Nothing is misconfigured.\n"
                     : fmt::format("{} {}\n", found_.size(), found_.size() == 1 ? "finding" : "findings"));
}

std::string Findings::json() const {
  using nlohmann::json;
  json findings = json::array(), skipped = json::array();
  for (const auto& finding : errors_first())
    findings.push_back({{"severity", to_string(finding.severity)},
                        {"where", finding.where},
                        {"what", finding.what},
                        {"todo", finding.todo}});
  for (const auto& one : skipped_) skipped.push_back({{"what", one.what}, {"why", one.why}});
  return json{{"findings", std::move(findings)}, {"checked", checked_}, {"not_checked", std::move(skipped)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace driftgate::cli
