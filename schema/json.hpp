#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

/// The largest integer that is accepted. Larger ones do not all have an exact IEEE-754 double (RFC 8785,
/// section 3.2.2.3).
inline constexpr std::uint64_t kMaxJsonInteger = (std::uint64_t{1} << 53) - 1;

/// Limits on JSON from outside (docs/design/evidence.md, "Limits on what comes in").
struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;  ///< that of an HTTP body
  std::uint32_t depth = 32;
  std::uint32_t values = 50'000;
};

/// Parses untrusted JSON. Everything that check_json refuses is refused before a document is built. `what`
/// names the document in messages.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {},
                                                std::string_view what = "JSON");

/// Checks untrusted JSON without building a document. Errors: `limit_exceeded` beyond `limits`;
/// `invalid_document` for syntax, duplicate keys, integers beyond ±(2^53 − 1), numbers beyond the range of a
/// double, a byte-order mark, NUL bytes and invalid UTF-8. `where` is "line L column C" or a JSON pointer.
[[nodiscard]] Result<void> check_json(std::string_view text, const JsonLimits& limits = {},
                                      std::string_view what = "JSON");

/// The canonical form of RFC 8785 (JCS): keys sorted by UTF-16 code unit, numbers as in ECMAScript, no white
/// space. A number that is not finite becomes the string "NaN", "Infinity" or "-Infinity"
/// (docs/design/measurement.md, "Numbers that are not finite").
[[nodiscard]] std::string canonical_json(const nlohmann::json& value);

/// The number as ECMAScript prints it (ECMA-262, Number::toString): the shortest digits that read back as the
/// same double. Precondition: the value is finite.
[[nodiscard]] std::string ecmascript_number(double value);

/// The value of a number, or of one of the three strings of canonical_json; std::nullopt for anything else.
[[nodiscard]] std::optional<double> number_from_json(const nlohmann::json& value);

/// The identity of a document that people write: "sha256:" and the hex digest of its canonical text.
[[nodiscard]] std::string document_digest(std::string_view canonical_text);

/// `text` as a reference token of a JSON pointer (RFC 6901: ~ becomes ~0 and / becomes ~1).
[[nodiscard]] std::string pointer_token(std::string_view text);

}  // namespace driftgate::schema
