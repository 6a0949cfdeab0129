#pragma once

#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

/// Shortest decimal that reads back as the same double ("0.1", "1e-07", "-0"), or "Infinity",
/// "-Infinity", "NaN".
[[nodiscard]] std::string number_text(double value);

/// The 16 lower-case hex digits of the IEEE-754 binary64 bits, most significant first
/// (1.0 is "3ff0000000000000"). Every NaN is written as 7ff8000000000000.
[[nodiscard]] std::string number_hex(double value);

/// Inverse of `number_text`. Only text that `number_text` writes is accepted; else `invalid_argument`.
[[nodiscard]] Result<double> parse_number_text(std::string_view text);

/// Inverse of `number_hex`: 16 lower-case hex digits; else `invalid_argument`.
[[nodiscard]] Result<double> parse_number_hex(std::string_view text);

/// Whether `text` is number_text and `hex` number_hex of one double.
[[nodiscard]] bool are_one_number(std::string_view text, std::string_view hex);

}  // namespace driftgate::schema
