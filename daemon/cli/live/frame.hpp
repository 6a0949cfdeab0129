#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/cli/live/line.hpp"

namespace driftgate::cli::live {

/// The columns and rows that a picture can have on a terminal: the last column stays free, since a character
/// in it may wrap, and so does the last row, where the cursor waits.
[[nodiscard]] Shape drawable(const Shape& terminal);

/// A picture that is drawn again in place, at the end of what the terminal shows, without the alternate
/// screen: what was before it stays above, and its last state stays when the program ends.
class Frame {
 public:
  /// The bytes that draw `lines` over those of the last call, cut to what is drawable. The cursor ends below
  /// them, at the left edge.
  [[nodiscard]] std::string draw(const std::vector<Line>& lines, const Shape& terminal);

  /// What is drawn stays; the next picture comes below it.
  void forget() { widths_.clear(); }

 private:
  std::vector<std::size_t> widths_;  ///< of the lines that were drawn
};

}  // namespace driftgate::cli::live
