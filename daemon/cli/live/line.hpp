#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace driftgate::cli::live {

/// What a piece of text says by its colour. Nothing is said by colour alone.
enum class Style : std::uint8_t { plain, strong, faint, good, bad, warn, accent };

struct Span {
  std::string text;
  Style style = Style::plain;
};

/// One line of a screen.
using Line = std::vector<Span>;

/// The columns and rows that there are, and whether colours are wanted.
struct Shape {
  std::size_t columns = 80, rows = 24;
  bool colour = true;
};

[[nodiscard]] std::size_t width_of(const Line& line);

/// The bytes of a line, cut to `width` columns, with colours if they are wanted. Whatever the spans hold, no
/// other control sequence is in it.
[[nodiscard]] std::string painted(const Line& line, std::size_t width, bool colour);

/// A bar of `width` columns, filled from the left by `share` from 0 to 1.
[[nodiscard]] std::string bar(double share, std::size_t width);

/// A value from 1 to `needed` on a logarithmic scale from 0 to 1, as e-values are compared: 0 for what is not
/// above 1, 1 for what reaches it.
[[nodiscard]] double level_of(double value, double needed);

}  // namespace driftgate::cli::live
