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

/// A member that is a number, or one of the words for numbers that are not finite, or `fallback`.
[[nodiscard]] double number_of(const nlohmann::json& object, std::string_view member, double fallback);
/// A member that is true; false for everything else.
[[nodiscard]] bool is_true(const nlohmann::json& object, std::string_view member);
/// A copy of a member; null when it is absent, or when `object` is none: what answers may be no daemon.
[[nodiscard]] nlohmann::json member_of(const nlohmann::json& object, std::string_view member);

/// Parses what the daemon answered: always an object. `invalid_document` for anything else.
[[nodiscard]] schema::Result<nlohmann::json> parse_answer(const schema::Result<std::string>& answer);

/// "2026-01-31 12:00:05  verdict_reached  offline-numeric  pass numerical.kl — …" for an evidence entry.
[[nodiscard]] std::string entry_line(const nlohmann::json& entry);
/// "running shadow-runtime 42% (420 of 1000 pairs)": where a promotion stands.
[[nodiscard]] std::string progress_line(const nlohmann::json& promotion);
/// Whether a promotion is in the state that it is followed until; false where that is empty.
[[nodiscard]] bool is_reached(const nlohmann::json& promotion, std::string_view until);
/// A line for each reason why a running canary's share stands; empty when there is none.
[[nodiscard]] std::string canary_waits_text(const nlohmann::json& promotion);
/// "revision 3 by rita: contract, captures.numeric.inf": what a promotion took from its model's recipe, or
/// "".
[[nodiscard]] std::string recipe_line(const nlohmann::json& promotion);
/// Several lines: the promotion, its stages, what it waits for.
[[nodiscard]] std::string promotion_text(const nlohmann::json& promotion);

}  // namespace driftgate::cli
