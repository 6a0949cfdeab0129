#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "daemon/base/json_members.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// A member as text for people: "" when absent or null, numbers as written, measured numbers as decimals.
[[nodiscard]] std::string text_of(const nlohmann::json& object, std::string_view member);
/// A value as text for people; objects and lists as JSON.
[[nodiscard]] std::string plain_text(const nlohmann::json& value);

/// Parses what the daemon answered.
[[nodiscard]] schema::Result<nlohmann::json> parse_answer(const schema::Result<std::string>& answer);

/// "2026-01-31 12:00:05  verdict_reached  offline-numeric  pass numerical.kl — …" for an evidence entry.
[[nodiscard]] std::string entry_line(const nlohmann::json& entry);
/// "running shadow-runtime 42% (420 of 1000 pairs)": where a promotion stands.
[[nodiscard]] std::string progress_line(const nlohmann::json& promotion);
/// Several lines: the promotion, its stages, what it waits for.
[[nodiscard]] std::string promotion_text(const nlohmann::json& promotion);

}  // namespace driftgate::cli
