#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

/// Integers beyond this do not survive as IEEE-754 doubles and are refused (RFC 8785, section 3.2.2.3).
inline constexpr std::uint64_t kMaxJsonInteger = (std::uint64_t{1} << 53) - 1;

/// Limits on JSON from outside (docs/design/evidence.md, "Limits on what comes in"). `bytes` is the limit of
/// an HTTP body.
struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;
  std::uint32_t depth = 32;
  std::uint32_t values = 50'000;
};

/// Parses untrusted JSON: the limits, duplicate keys, integers beyond 2^53 − 1, a byte-order mark, NUL
/// bytes and invalid UTF-8 are refused before a DOM exists. `what` names the document in messages;
/// `where` of an error is "line L column C" for syntax and a JSON pointer for the rest.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {},
                                                std::string_view what = "JSON");

/// The checks of `parse_json` alone, without building anything.
[[nodiscard]] Result<void> check_json(std::string_view text, const JsonLimits& limits = {},
                                      std::string_view what = "JSON");

/// RFC 8785 (JCS): keys by UTF-16 code unit, ECMAScript numbers, no white space. A double that is not
/// finite becomes the string "NaN", "Infinity" or "-Infinity" (docs/design/measurement.md, "Numbers that are
/// not finite").
[[nodiscard]] std::string canonical_json(const nlohmann::json& value);

/// The number as ECMAScript prints it: shortest digits that round-trip. Precondition: finite.
[[nodiscard]] std::string ecmascript_number(double value);

/// Reads a number, or one of the three strings for numbers that are not finite.
[[nodiscard]] std::optional<double> number_from_json(const nlohmann::json& value);

/// Identity of a document that people write: "sha256:" and the hex digest of its canonical text.
[[nodiscard]] std::string document_digest(std::string_view canonical_text);

/// `text` as one reference token of a JSON pointer (RFC 6901: ~ → ~0, / → ~1).
[[nodiscard]] std::string pointer_token(std::string_view text);

}  // namespace driftgate::schema
