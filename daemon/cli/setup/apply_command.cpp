#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/setup/apply_commands.hpp"
#include "daemon/cli/setup/apply_steps.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::Result;

constexpr std::array<const char*, 3> kDone{"unchanged", "created", "changed"};
constexpr std::array<const char*, 3> kPlanned{"unchanged", "would create", "would change"};

/// Tells what becomes of each step, as lines at once or as one JSON object at the end.
class Report {
 public:
  Report(const ConnectionArgs& connection, const ApplyArgs& args)
      : json_(connection.json),
        dry_run_(args.dry_run),
        value_{{"file", args.file},
               {"dry_run", args.dry_run},
               {"resources", json::array()},
               {"error", nullptr}} {}

  void step(const SetupStep& step, const std::vector<std::string>& warnings = {}) {
    const auto action = static_cast<std::size_t>(step.action);
    ++counts_[action];
    line(step, (dry_run_ ? kPlanned : kDone)[action], warnings);
    value_["resources"].back()["done"] = !dry_run_ && step.action != SetupAction::unchanged;
  }
  void failed(const SetupStep& step, const schema::Error& error) {
    line(step, "failed", {});
    value_["resources"].back()["done"] = false;
    value_["error"] = error.describe();
  }
  void left(const SetupStep& step) {
    line(step, "not done", {});
    value_["resources"].back()["done"] = false;
  }

  [[nodiscard]] bool changes() const { return counts_[1] + counts_[2] > 0; }

  void end() {
    if (json_) return print_line(value_.dump());
    print_line(fmt::format("{} {}, {} {}, {} unchanged", counts_[1], dry_run_ ? "to create" : "created",
                           counts_[2], dry_run_ ? "to change" : "changed", counts_[0]));
  }

 private:
  void line(const SetupStep& step, const char* what, const std::vector<std::string>& warnings) {
    json shown{{"kind", to_string(step.item.kind)},
               {"name", step.item.name},
               {"action", kDone[static_cast<std::size_t>(step.action)]},
               {"differences", step.differences},
               {"warnings", warnings}};
    if (!step.note.empty()) shown["note"] = step.note;
    value_["resources"].push_back(std::move(shown));
    if (json_) return;
    print_line(fmt::format("{:<12}  {} {}{}", what, to_string(step.item.kind), step.item.name,
                           step.note.empty() ? "" : ": " + step.note));
    for (const auto& difference : step.differences) print_line("                " + printable(difference));
    for (const auto& warning : warnings) fmt::print(stderr, "driftgate: warning: {}\n", printable(warning));
  }

  bool json_, dry_run_;
  json value_;
  std::array<int, 3> counts_{};
};

Result<int> carry_out_all(Client& client, const std::vector<SetupStep>& steps, Report& report_to) {
  for (auto step = steps.begin(); step != steps.end(); ++step) {
    if (step->action == SetupAction::unchanged) {
      report_to.step(*step);
      continue;
    }
    const auto warnings = carry_out(client, *step);
    if (warnings) {
      report_to.step(*step, *warnings);
      continue;
    }
    report_to.failed(*step, warnings.error());
    for (auto rest = std::next(step); rest != steps.end(); ++rest)
      if (rest->action != SetupAction::unchanged) report_to.left(*rest);
    report_to.end();
    return schema::fail(warnings.error().code, fmt::format("{} {}: {}", to_string(step->item.kind),
                                                           step->item.name, warnings.error().describe()));
  }
  report_to.end();
  return kExitOk;
}

}  // namespace

int apply(const ConnectionArgs& connection, const ApplyArgs& args) {
  auto items = read_setup_file(args.file);
  if (!items) return report(items.error());
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const auto steps = TRY(plan_setup(client, name_of_file(args.file), std::move(*items)));
    Report told(connection, args);
    if (!args.dry_run) return carry_out_all(client, steps, told);
    for (const auto& step : steps) told.step(step);
    told.end();
    return told.changes() ? kExitDifferences : kExitOk;
  });
}

}  // namespace driftgate::cli
