#pragma once

#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/evidence/log/log.hpp"

namespace driftgate::evidence {

/// An entry's bytes as JSON; they were checked when they were written. `corrupt` when they are none.
inline Result<nlohmann::json> entry_json(const StoredEntry& entry) {
  auto json = nlohmann::json::parse(entry.bytes, nullptr, false);
  if (json.is_object()) return json;
  return schema::fail(schema::ErrorCode::corrupt,
                      "evidence entry " + std::to_string(entry.seq) + " is no JSON: restore a backup");
}

// Names that every reader of entries uses.
using base::integer_at;
using base::object_at;
using base::text_at;

}  // namespace driftgate::evidence
