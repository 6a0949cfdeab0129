#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace driftgate::schema {

/// What a contract may say and no stage evaluates yet is refused by name, never ignored. Whoever
/// teaches a stage one of these removes its line from the table in capabilities.cpp.
enum class Feature : std::uint8_t { metric, limit, action };

/// Why this version refuses `name`, as a sentence; nothing when it is evaluated.
[[nodiscard]] std::optional<std::string> refusal(Feature feature, std::string_view name);

}  // namespace driftgate::schema
