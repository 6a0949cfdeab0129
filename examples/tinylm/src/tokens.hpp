#pragma once
/// Tokens as strings and bytes as text.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tinylm {

/// The name of a token: ASCII as itself, other bytes as "bytes:\xc3" (the form that OpenAI uses), BOS as
/// "<s>". Reversible.
std::string token_string(std::int32_t token);

/// The bytes of tokens; BOS has none.
std::string bytes_of(std::span<const std::int32_t> tokens);

/// Converts bytes to UTF-8, with U+FFFD for each byte that is not part of a valid sequence.
std::string to_valid_utf8(std::string_view bytes);

/// Length of the longest prefix that does not end inside a sequence which later bytes could complete.
std::size_t complete_prefix(std::string_view bytes);

}  // namespace tinylm
