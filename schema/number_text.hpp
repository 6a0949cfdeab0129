#pragma once

#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

/// The shortest decimal that reads back as the same double ("0.1", "1e-07", "-0"), or "Infinity", "-Infinity"
/// or "NaN".
[[nodiscard]] std::string number_text(double value);

/// The 16 lower-case hex digits of the IEEE-754 binary64 bits, most significant first
/// (1.0 is "3ff0000000000000"). Every NaN is written as 7ff8000000000000.
[[nodiscard]] std::string number_hex(double value);

/// The inverse of `number_text`. Error: `invalid_argument` for any text that `number_text` does not write.
[[nodiscard]] Result<double> parse_number_text(std::string_view text);

/// The inverse of `number_hex`. Error: `invalid_argument` for anything but 16 lower-case hex digits, and for
/// a NaN with other bits than number_hex writes.
[[nodiscard]] Result<double> parse_number_hex(std::string_view text);

/// Whether `text` is the number_text and `hex` the number_hex of the same double.
[[nodiscard]] bool are_one_number(std::string_view text, std::string_view hex);

}  // namespace driftgate::schema
