#include "daemon/cli/live/frame.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace driftgate::cli::live {

Shape drawable(const Shape& terminal) {
  return {.columns = std::max<std::size_t>(terminal.columns, 2) - 1,
          .rows = std::max<std::size_t>(terminal.rows, 2) - 1,
          .colour = terminal.colour};
}

std::string Frame::draw(const std::vector<Line>& lines, const Shape& terminal) {
  const Shape room = drawable(terminal);
  // Where the terminal became narrower, it broke the longer of the lines that it has.
  const std::size_t columns = room.columns + 1;
  std::size_t before = 0;
  for (const std::size_t width : widths_) before += std::max<std::size_t>(1, (width + columns - 1) / columns);
  before = std::min(before, room.rows);
  std::string out = "\r";
  if (before > 0) out += fmt::format("\x1b[{}A", before);
  out += "\x1b[?7l";  // no wrapping, also where the terminal takes a character for wider than it is here
  widths_.clear();
  for (const Line& line : lines) {
    if (widths_.size() == room.rows) break;
    widths_.push_back(std::min(width_of(line), room.columns));
    out += painted(line, room.columns, room.colour) + "\x1b[K\r\n";
  }
  return out + "\x1b[J\x1b[?7h";
}

}  // namespace driftgate::cli::live
