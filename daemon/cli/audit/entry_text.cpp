#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

/// Members that a line leaves out: `driftgate evidence SEQ` shows the whole entry.
constexpr std::array<std::string_view, 6> kLeftOut{"attempt", "stage",         "reason",
                                                   "message", "inputs_digest", "spec_digest"};

std::string with_text(std::string line, const std::string& text) {
  return text.empty() ? line : line + " — " + text;
}

std::string verdict_text(const json& body) {
  const std::string slice = text_of(body, "slice");
  const std::string severity = text_of(body, "severity");
  const bool whole = text_of(body, "scope") == "stage";
  std::string line =
      fmt::format("{} {}", text_of(body, "verdict"), whole ? "the stage" : text_of(body, "clause"));
  if (!slice.empty()) line += " on " + slice;
  if (severity == "soft") line += " (soft)";
  return with_text(std::move(line), text_of(body, "message"));
}

std::string state_text(const json& body) {
  return with_text(fmt::format("{} → {}, traffic {}", text_of(body, "from"), text_of(body, "to"),
                               text_of(body, "traffic")),
                   text_of(body, "reason"));
}

std::string route_text(const json& body) {
  const double share = static_cast<double>(base::integer_at(body, "candidate_bp")) / 100.0;
  return with_text(fmt::format("candidate {}%", share), text_of(body, "reason"));
}

/// name=value for every member that is no list and no object.
std::string members_text(const json& body) {
  std::string line;
  for (const auto& [name, value] : body.items()) {
    const bool measured = value.is_object() && value.contains("dec");
    const bool left_out = std::ranges::find(kLeftOut, name) != kLeftOut.end();
    if (left_out || value.is_null() || ((value.is_object() || value.is_array()) && !measured)) continue;
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", printable(name), plain_text(value));
  }
  const std::string reason = text_of(body, "reason");
  return with_text(std::move(line), reason.empty() ? text_of(body, "message") : reason);
}

std::string body_text(const std::string& kind, const json& body) {
  if (kind == "verdict_reached") return verdict_text(body);
  if (kind == "state_changed" && body.contains("to")) return state_text(body);
  if (kind == "route_desired" || kind == "route_applied") return route_text(body);
  return members_text(body);
}

}  // namespace

std::string entry_line(const json& entry) {
  const std::string kind = text_of(entry, "kind");
  const json subject = member_of(entry, "subject");
  const json body = member_of(entry, "body");
  std::string line = fmt::format("{}  {:<19}", format_time(base::integer_at(entry, "time_us")), kind);
  line += fmt::format("  {:<17}", text_of(subject, "stage"));
  if (body.is_object()) line += "  " + body_text(kind, body);
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace driftgate::cli
