#include "daemon/cli/service/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

double seconds_of(const json& plan, const char* member) {
  return static_cast<double>(base::integer_at(plan, member)) / 1'000;
}

std::string percent_of(const json& object, const char* member) {
  return fmt::format("{:g}%", static_cast<double>(base::integer_at(object, member)) / 100);
}

/// How a stage of traffic runs; empty for a stage of captures.
std::string schedule_text(const json& plan) {
  if (!plan.is_object()) return {};
  if (plan.contains("mirror_bp")) {
    return fmt::format("  mirrors {} of requests for {:g} s to {:g} s\n", percent_of(plan, "mirror_bp"),
                       seconds_of(plan, "min_duration_ms"), seconds_of(plan, "max_duration_ms"));
  }
  std::string steps;
  for (const json& step : member_of(plan, "steps")) {
    const auto approvals = base::integer_at(step, "approvals");
    steps += (steps.empty() ? "" : " → ") + percent_of(step, "share_bp");
    if (approvals > 0) steps += fmt::format(" (after {} approval{})", approvals, approvals > 1 ? "s" : "");
  }
  return fmt::format("  {}, each for at least {:g} s and {} keys, then {:g} s of bake\n", steps,
                     seconds_of(plan, "soak_ms"), base::integer_at(plan, "min_keys"),
                     seconds_of(plan, "bake_ms"));
}

/// Which run the stage's sizes are of.
std::string run_text(const json& stage) {
  const auto run = base::integer_at(stage, "run");
  if (run <= 1) return {};
  const bool captures = !member_of(stage, "plan").is_object();
  return fmt::format(
      "  run {} of this checkpoint and kernel under this contract{}\n", run,
      captures ? "; captures that an earlier run measured get its verdicts and spend nothing" : "");
}

std::string clause_text(const json& clause) {
  std::string text = fmt::format("  {}{}\n", text_of(clause, "clause"),
                                 text_of(clause, "severity") == "soft" ? " (soft, does not block)" : "");
  for (const json& need : member_of(clause, "needs")) {
    const json n = member_of(need, "n");
    if (n.is_number()) {
      text += fmt::format("      at least {} {} at α = {:.4g}: {}\n", plain_text(n), text_of(need, "unit"),
                          number_of(need, "alpha", 0), text_of(need, "why"));
    } else {
      text += fmt::format("      {}\n", text_of(need, "why"));
    }
  }
  return text;
}

std::string start_text(const json& plan) {
  const std::string holder = text_of(member_of(plan, "locks"), "held_by");
  std::string text =
      holder.empty() ? "It would start at once.\n" : fmt::format("It would wait for {} to end.\n", holder);
  for (const json& queued : member_of(plan, "supersedes"))
    text += fmt::format("It would take the place of {}, which is queued.\n", plain_text(queued));
  return text;
}

/// What came from the model's recipe, with the values.
std::string recipe_text(const json& request) {
  const json use = member_of(request, "recipe");
  if (!use.is_object()) return {};
  const std::string setter = text_of(use, "set_by");
  std::string text =
      fmt::format("From the recipe of {}, revision {}{} ({}):\n", text_of(request, "model"),
                  text_of(use, "revision"), setter.empty() ? "" : " by " + setter, text_of(use, "digest"));
  for (const json& part : member_of(use, "parts")) {
    const std::string pointer = plain_text(part);
    const json* value = &request;
    for (std::size_t at = 0; value != nullptr && at < pointer.size();) {
      const auto end = std::min(pointer.find('/', at + 1), pointer.size());
      value = base::member(*value, pointer.substr(at + 1, end - at - 1));
      at = end;
    }
    if (value == nullptr) continue;
    // Whole, however long: the plan is where people see what they ask for.
    text += fmt::format("  {}: {}\n", pointer,
                        value->is_string()
                            ? plain_text(*value)
                            : printable(value->dump(-1, ' ', false, json::error_handler_t::replace)));
  }
  return text;
}

}  // namespace

std::string plan_text(const json& plan) {
  std::string text =
      fmt::format("{} for {} under the contract {}: a plan, nothing was changed.\n", text_of(plan, "engine"),
                  text_of(plan, "model"), text_of(plan, "contract_name"));
  text += start_text(plan);
  text += recipe_text(member_of(plan, "request"));
  for (const json& stage : member_of(plan, "stages")) {
    text += "\n" + text_of(stage, "stage") + "\n" + run_text(stage) + schedule_text(member_of(stage, "plan"));
    const json clauses = member_of(stage, "clauses");
    for (const json& clause : clauses) text += clause_text(clause);
    if (clauses.empty()) text += "  nothing is demanded here\n";
  }
  const json unfit = member_of(plan, "unfit");
  text += unfit.empty() ? "\nThe corpora given are large enough for every clause that captures decide.\n"
                        : "\nClauses that the corpora given cannot decide, or seldom would\n";
  for (const json& one : unfit)
    text += fmt::format("  {}: {}\n", text_of(one, "stage"), text_of(one, "message"));
  const json undecidable = member_of(plan, "undecidable");
  if (!undecidable.empty()) text += "\nClauses that cannot be decided for lack of an engine's ability\n";
  for (const json& one : undecidable)
    text += fmt::format("  {}{}\n", text_of(one, "message"),
                        text_of(one, "severity") == "soft" ? " (soft, does not block)" : "");
  const json rescoring = member_of(plan, "rescoring");
  const std::string why = text_of(rescoring, "why_none");
  if (!why.empty()) text += fmt::format("\nThe guard would score no answer again: {}\n", why);
  if (rescoring.is_object() && why.empty())
    text += fmt::format("\nThe guard would have live answers scored again by the engine {}.\n",
                        text_of(rescoring, "reference"));
  return text;
}

}  // namespace driftgate::cli
