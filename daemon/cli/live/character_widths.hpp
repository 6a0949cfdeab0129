#pragma once

#include <cstddef>

namespace driftgate::cli::live {

// What a terminal makes of a character, by tables of our own: the C library's depend on the locale.

/// Columns that a character takes: 0 when it joins the one before it, 2 when it is wide, else 1. Not for
/// control characters.
[[nodiscard]] std::size_t columns_of(char32_t c);

/// True for characters that cannot be seen, that turn the direction of the text around them, or that have no
/// agreed shape.
[[nodiscard]] bool is_hidden(char32_t c);

}  // namespace driftgate::cli::live
