#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schema/evidence/canonical_entry.hpp"

namespace driftgate::base {

// The same of an evidence entry's body as json_members.hpp has of JSON.

/// A text, or "".
[[nodiscard]] std::string text_at(const schema::EntryValue::Object& body, std::string_view name);
/// A whole number, or `otherwise`.
[[nodiscard]] std::int64_t integer_at(const schema::EntryValue::Object& body, std::string_view name,
                                      std::int64_t otherwise = 0);

}  // namespace driftgate::base
