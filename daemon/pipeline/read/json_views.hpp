#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace driftgate::pipeline {

// Parts that views of several resources are made of.

/// "12.5%" of a share in basis points.
[[nodiscard]] inline std::string share_text(std::int64_t share_bp) {
  return fmt::format("{:.4g}%", static_cast<double>(share_bp) / 100.0);
}

/// A stored JSON document; null for an empty text, discarded for one that is no JSON.
[[nodiscard]] inline nlohmann::json stored_json(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json::parse(text, nullptr, false);
}

/// The value, or null.
template <typename T>
[[nodiscard]] nlohmann::json maybe_json(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace driftgate::pipeline
