#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace driftgate::schema {

/// The length in bytes of the well-formed UTF-8 character that begins at `at` (The Unicode Standard 15, table
/// 3-7); 0 where none does.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at);

/// `text` as well-formed UTF-8 of at most `max_bytes`: cut between characters, and with U+FFFD in place of
/// each byte that belongs to no character. For output of other programs that is stored or sent where only
/// UTF-8 is allowed.
[[nodiscard]] std::string utf8_text(std::string_view text, std::size_t max_bytes);

}  // namespace driftgate::schema
