#include "daemon/cli/live/frame.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace driftgate::cli::live {

std::string Frame::draw(const std::vector<Line>& lines, const Shape& shape) {
  const std::size_t columns = std::max<std::size_t>(shape.columns, 2);
  const std::size_t most = std::max<std::size_t>(shape.rows, 2) - 1;  // the last row is the cursor's
  // Where the terminal became narrower, it broke the longer of the lines that it has.
  std::size_t before = 0;
  for (const std::size_t width : widths_) before += std::max<std::size_t>(1, (width + columns - 1) / columns);
  before = std::min(before, most);
  std::string out = "\r";
  if (before > 0) out += fmt::format("\x1b[{}A", before);
  out += "\x1b[?7l";  // no wrapping, also where the terminal takes a character for wider than it is here
  widths_.clear();
  for (const Line& line : lines) {
    if (widths_.size() == most) break;
    widths_.push_back(std::min(width_of(line), columns - 1));
    out += painted(line, columns - 1, shape.colour) + "\x1b[K\r\n";
  }
  return out + "\x1b[J\x1b[?7h";
}

}  // namespace driftgate::cli::live
