#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace driftgate::schema {

/// Bytes of the well-formed UTF-8 character that starts at `at` (Unicode 15, table 3-7), 0 when there is
/// none.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at);

/// `text` as well-formed UTF-8 of at most `max_bytes`: cut between characters, with U+FFFD for each byte that
/// belongs to none. For words of other programs that are quoted where only UTF-8 can be stored.
[[nodiscard]] std::string utf8_text(std::string_view text, std::size_t max_bytes);

}  // namespace driftgate::schema
