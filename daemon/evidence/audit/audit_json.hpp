#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/evidence/log/query.hpp"

namespace driftgate::evidence {

/// An entry's bytes as JSON; they were checked when they were written. `corrupt` when they are none.
inline Result<nlohmann::json> entry_json(const StoredEntry& entry) {
  auto json = nlohmann::json::parse(entry.bytes, nullptr, false);
  if (json.is_object()) return json;
  return schema::fail(schema::ErrorCode::corrupt,
                      "evidence entry " + std::to_string(entry.seq) + " is no JSON: restore a backup");
}

/// Calls `take` for each entry of a filter as JSON, in its order, until it returns false.
inline Result<void> each_json(store::Reader& reader, const EntryFilter& filter,
                              const std::function<Result<bool>(const nlohmann::json&)>& take) {
  return each_entry(reader, filter, [&](const StoredEntry& stored) -> Result<bool> {
    const auto entry = TRY(entry_json(stored));
    return take(entry);
  });
}

/// The first entry of a filter as JSON, or null.
inline Result<nlohmann::json> first_json(store::Reader& reader, const EntryFilter& filter) {
  const auto first = TRY(first_entry(reader, filter));
  return first ? entry_json(*first) : Result<nlohmann::json>(nlohmann::json());
}

// Names that every reader of entries uses.
using base::integer_at;
using base::object_at;
using base::text_at;

}  // namespace driftgate::evidence
