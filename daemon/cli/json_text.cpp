#include "daemon/cli/json_text.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/cli/output.hpp"
#include "schema/json.hpp"
#include "schema/utf8.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxValueWidth = 120;

std::string percent(std::int64_t done, std::int64_t total) {
  return total <= 0 ? "" : fmt::format("{}%", 100 * done / total);
}

/// "5 pass, 1 inconclusive" and one line for each clause that is open or violated.
std::string summary_text(const json& run) {
  const json* summary = base::member(run, "summary");
  if (summary == nullptr) return "";
  if (!summary->is_object()) return plain_text(*summary);
  std::string out;
  if (const json* verdicts = base::member(*summary, "verdicts"); verdicts != nullptr && verdicts->is_object())
    for (const auto& [name, count] : verdicts->items())
      if (count.is_number_integer() && count.get<std::int64_t>() > 0)
        out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count.get<std::int64_t>(), printable(name));
  if (const json* open = base::member(*summary, "open"); open != nullptr && open->is_array())
    for (const json& item : *open)
      out += fmt::format("\n    {} {}: {}", text_of(item, "verdict"), text_of(item, "clause"),
                         text_of(item, "message"));
  return out;
}

std::string stage_progress(const json& run) {
  const json* progress = base::member(run, "progress");
  if (progress == nullptr) return "";
  const std::int64_t done = base::integer_at(*progress, "done");
  const std::int64_t total = base::integer_at(*progress, "total");
  std::string out = percent(done, total);
  if (total > 0) out += fmt::format(" ({} of {} {})", done, total, text_of(*progress, "unit"));
  const std::string text = text_of(*progress, "text");
  if (!text.empty()) out += fmt::format("{}{}", out.empty() ? "" : ", ", text);
  return out;
}

/// " (1 of 2: ada)" when more than one person is asked for, or some have come.
std::string given_text(const json& asked, std::int64_t needed) {
  std::string names;
  std::size_t count = 0;
  if (const json* given = base::member(asked, "given"); given != nullptr && given->is_array()) {
    count = given->size();
    for (const json& one : *given) names += (names.empty() ? ": " : ", ") + text_of(one, "who");
  }
  return needed <= 1 ? "" : fmt::format(" ({} of {}{})", count, needed, names);
}

/// What people can do about a promotion that waits for them.
std::string waits_text(const json& promotion) {
  std::string out;
  if (const json* approval = base::member(promotion, "approval"))
    out += fmt::format("  waits for approval{}: driftgate approve {} --evidence {} --reason …\n",
                       given_text(*approval, base::integer_at(*approval, "needed")), text_of(promotion, "id"),
                       text_of(*approval, "evidence_digest"));
  const json* waiver = base::member(promotion, "waiver");
  if (const json* clauses = waiver == nullptr ? nullptr : base::member(*waiver, "clauses")) {
    for (const json& open : *clauses)
      out += fmt::format("  inconclusive{}: driftgate waive {} --clause {} --evidence {} --reason …\n",
                         given_text(open, base::integer_at(*waiver, "needed")), text_of(promotion, "id"),
                         text_of(open, "clause"), text_of(*waiver, "evidence_digest"));
  }
  return out;
}

}  // namespace

std::string plain_text(const json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_null()) return "";
  if (value.is_object() && value.contains("dec") && value["dec"].is_string())
    return printable(value["dec"].get<std::string>());
  std::string text = printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
  if (text.size() > kMaxValueWidth) text = schema::utf8_text(text, kMaxValueWidth) + "…";
  return text;
}

std::string text_of(const json& object, std::string_view member) {
  const json* found = base::member(object, member);
  return found == nullptr ? "" : plain_text(*found);
}

double number_of(const json& object, std::string_view member, double fallback) {
  const json* found = base::member(object, member);
  return found == nullptr ? fallback : schema::number_from_json(*found).value_or(fallback);
}

bool is_true(const json& object, std::string_view member) {
  const json* found = base::member(object, member);
  return found != nullptr && *found == true;
}

json member_of(const json& object, std::string_view member) {
  const json* found = base::member(object, member);
  return found == nullptr ? json() : *found;
}

schema::Result<json> parse_answer(const schema::Result<std::string>& answer) {
  if (!answer) return std::unexpected(answer.error());
  json parsed = json::parse(*answer, nullptr, false);
  if (!parsed.is_object())
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the daemon's answer is no JSON object: is the URL right?");
  return parsed;
}

bool is_reached(const json& promotion, std::string_view until) {
  return !until.empty() && text_of(promotion, "state") == until;
}

std::string progress_line(const json& promotion) {
  std::string out = text_of(promotion, "state");
  const std::string stage = text_of(promotion, "stage");
  if (!stage.empty()) out += " " + stage;
  const json* stages = base::member(promotion, "stages");
  if (stages != nullptr && stages->is_array() && !stages->empty() &&
      text_of(stages->back(), "stage") == stage) {
    const std::string progress = stage_progress(stages->back());
    if (!progress.empty()) out += " " + progress;
  }
  const json* canary = base::member(promotion, "canary");
  const bool ended = base::integer_at(promotion, "ended_us") > 0;
  if (canary != nullptr && stage == "canary" && !ended) {
    const double share = static_cast<double>(base::integer_at(*canary, "share_bp")) / 100.0;
    out += fmt::format("; share {}%, {}", share, text_of(*canary, "phase"));
    out += fmt::format(", e-value {:.4g}", number_of(*canary, "e_value", 1));
  }
  return out;
}

std::string canary_waits_text(const json& promotion) {
  std::string out;
  const json canary = member_of(promotion, "canary");
  if (const json* reasons = base::member(canary, "waits_for"); reasons != nullptr && reasons->is_array())
    for (const json& reason : *reasons) out += fmt::format("  waits for   {}\n", plain_text(reason));
  return out;
}

std::string recipe_line(const json& promotion) {
  const json use = member_of(member_of(promotion, "request"), "recipe");
  if (!use.is_object()) return {};
  std::string parts;
  for (const json& part : member_of(use, "parts")) {
    std::string path = plain_text(part);
    if (path.starts_with('/')) path.erase(0, 1);
    std::ranges::replace(path, '/', '.');
    parts += (parts.empty() ? "" : ", ") + path;
  }
  const std::string setter = text_of(use, "set_by");
  return fmt::format("revision {}{}: {}", text_of(use, "revision"), setter.empty() ? "" : " by " + setter,
                     parts);
}

std::string promotion_text(const json& promotion) {
  std::string out = fmt::format("{}  {}  {}\n", text_of(promotion, "id"), text_of(promotion, "model"),
                                progress_line(promotion));
  const auto line = [&out](std::string_view label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<11} {}\n", label, text);
  };
  line("engine", text_of(promotion, "engine"));
  const std::string contract_name = text_of(promotion, "contract_name");
  line("contract", (contract_name.empty() ? "" : contract_name + " ") + text_of(promotion, "contract"));
  line("requester", text_of(promotion, "requester"));
  line("recipe", recipe_line(promotion));
  if (is_true(member_of(promotion, "request"), "accept_undecidable"))
    line("accepts", "that a hard clause cannot be decided for lack of an engine's ability");
  line("traffic", text_of(promotion, "traffic"));
  line("reason", text_of(promotion, "reason"));
  const json* stages = base::member(promotion, "stages");
  if (stages != nullptr && stages->is_array())
    for (const json& run : *stages)
      out += fmt::format("  {:<18} {:<12} {}\n", text_of(run, "stage"),
                         text_of(run, "verdict").empty() ? text_of(run, "state") : text_of(run, "verdict"),
                         base::member(run, "verdict") == nullptr ? stage_progress(run) : summary_text(run));
  return out + canary_waits_text(promotion) + waits_text(promotion);
}

}  // namespace driftgate::cli
