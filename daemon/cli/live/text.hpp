#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace driftgate::cli::live {

// Text for a screen whose lines must not wrap. Widths are columns of the terminal.

/// `text` as it may be shown: well-formed UTF-8 on one line, a space for each control character, U+FFFD for
/// what is malformed, invisible or turns the direction of text, and no pile of marks on one character. Safe
/// text is left as it is.
[[nodiscard]] std::string safe_text(std::string_view text);

/// Columns that safe text takes.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// Safe text of at most `width` columns; what is cut ends in "…".
[[nodiscard]] std::string fit(std::string_view text, std::size_t width);

/// The same, filled with spaces to `width` columns.
[[nodiscard]] std::string pad(std::string_view text, std::size_t width);

/// Safe text on at most `most` lines, broken between words where one fits, else inside it; the last line is
/// cut with "…" when there is more.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width, std::size_t most);

/// "0.05", "5.43e+08", "inf": four significant digits.
[[nodiscard]] std::string figure_text(double value);

/// "7 s", "3 min", "2 h 5 min", "4 d": how long, in microseconds; "0 s" when negative.
[[nodiscard]] std::string duration_text(long long duration_us);

}  // namespace driftgate::cli::live
