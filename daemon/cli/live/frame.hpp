#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/cli/live/line.hpp"

namespace driftgate::cli::live {

/// A picture that is drawn again in place, at the end of what the terminal shows, without the alternate
/// screen: what was before it stays above, and its last state stays when the program ends.
class Frame {
 public:
  /// The bytes that draw `lines` over those of the last call, each cut to less than the terminal's width.
  /// Fewer lines than the terminal has rows; those beyond are left out. The cursor ends below them, at the
  /// left edge.
  [[nodiscard]] std::string draw(const std::vector<Line>& lines, const Shape& shape);

  /// What is drawn stays; the next picture comes below it.
  void forget() { widths_.clear(); }

 private:
  std::vector<std::size_t> widths_;  ///< of the lines that were drawn
};

}  // namespace driftgate::cli::live
