#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "daemon/evidence/log/log.hpp"

namespace driftgate::evidence {

/// An entry's bytes as JSON; they were checked when they were written. `corrupt` when they are none.
inline Result<nlohmann::json> entry_json(const StoredEntry& entry) {
  auto json = nlohmann::json::parse(entry.bytes, nullptr, false);
  if (json.is_object()) return json;
  return schema::fail(schema::ErrorCode::corrupt,
                      "evidence entry " + std::to_string(entry.seq) + " is no JSON: restore a backup");
}

/// A text member below `object`, or "".
inline std::string text_at(const nlohmann::json& object, std::string_view member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// An object member, or an empty object.
inline nlohmann::json object_at(const nlohmann::json& object, std::string_view member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_object() ? *found : nlohmann::json::object();
}

}  // namespace driftgate::evidence
