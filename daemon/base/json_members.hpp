#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace driftgate::base {

// Members of JSON that this program wrote, read without complaint: what is absent or of another type counts
// as not said. JSON from outside is checked where it comes in.

/// The member, or null when it is absent, is JSON's null, or `object` is no object.
[[nodiscard]] const nlohmann::json* member(const nlohmann::json& object, std::string_view name);
/// A text, or nothing.
[[nodiscard]] std::optional<std::string> maybe_text_at(const nlohmann::json& object, std::string_view name);
/// A text, or "".
[[nodiscard]] std::string text_at(const nlohmann::json& object, std::string_view name);
/// A whole number, or `otherwise`.
[[nodiscard]] std::int64_t integer_at(const nlohmann::json& object, std::string_view name,
                                      std::int64_t otherwise = 0);
/// An object, or an empty one.
[[nodiscard]] nlohmann::json object_at(const nlohmann::json& object, std::string_view name);

}  // namespace driftgate::base
