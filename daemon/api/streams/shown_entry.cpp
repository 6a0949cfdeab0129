#include "daemon/api/streams/shown_entry.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "daemon/base/json_members.hpp"

namespace driftgate::api {
namespace {

constexpr std::array<const char*, 5> kStateMembers{"from", "to", "stage", "attempt", "traffic"};
constexpr std::array<const char*, 1> kRouteMembers{"candidate_bp"};

/// Kinds of which everybody may know that they were written, and about what.
constexpr std::array<std::string_view, 25> kKindsOfAll{
    "promotion_requested", "verdict_reached",    "approval_given",
    "waiver_given",        "hold_set",           "hold_lifted",
    "block_set",           "block_lifted",       "schedule_set",
    "schedule_deleted",    "schedule_fired",     "schedule_skipped",
    "contract_registered", "engine_registered",  "kernel_registered",
    "model_bootstrapped",  "guard_armed",        "guard_alarmed",
    "guard_decided",       "guard_ended",        "breaker_changed",
    "job_finished",        "escalation_decided", "recipe_set",
    "recipe_deleted"};
constexpr std::string_view kStartKind = "daemon_started";

/// The envelope without the actor, and these members of the body.
nlohmann::json shortened(const nlohmann::json& entry, std::span<const char* const> members) {
  nlohmann::json shown = nlohmann::json::object();
  for (const char* name : {"v", "seq", "time_us", "kind", "subject"})
    if (entry.contains(name)) shown[name] = entry[name];
  shown["body"] = nlohmann::json::object();
  const nlohmann::json body = base::object_at(entry, "body");
  for (const char* name : members)
    if (body.contains(name)) shown["body"][name] = body[name];
  return shown;
}

}  // namespace

std::optional<nlohmann::json> shown_of_states(std::string_view kind, const nlohmann::json& entry) {
  if (kind == "state_changed") return shortened(entry, kStateMembers);
  if (kind == "route_desired" || kind == "route_applied") return shortened(entry, kRouteMembers);
  return std::nullopt;
}

std::optional<nlohmann::json> shown_to_all(std::string_view kind, const nlohmann::json& entry) {
  auto states = shown_of_states(kind, entry);
  if (states) return states;
  const bool known = kind == kStartKind || std::ranges::find(kKindsOfAll, kind) != kKindsOfAll.end();
  return known ? std::optional(shortened(entry, {})) : std::nullopt;
}

}  // namespace driftgate::api
