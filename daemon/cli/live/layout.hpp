#pragma once

#include <cstddef>
#include <vector>

#include "daemon/cli/live/line.hpp"

namespace driftgate::cli::live {

/// A part of a screen. Blocks stand below one another in the order of the list; where there is not room for
/// all of their lines, those of a lower rank get theirs first.
struct Block {
  std::vector<Line> lines{};
  int rank = 0;
  std::size_t least = 1;     ///< lines that it gets before others get more than theirs
  bool keeps_last = false;   ///< of what does not fit, the first lines are left out, not the last
  bool counts_rest = false;  ///< its last line says how many are left out
  bool gap = false;          ///< a blank line before it, where there is room for all lines
};

/// At most `rows` lines.
[[nodiscard]] std::vector<Line> lay_out(const std::vector<Block>& blocks, std::size_t rows);

}  // namespace driftgate::cli::live
