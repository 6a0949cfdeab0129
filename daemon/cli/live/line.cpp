#include "daemon/cli/live/line.hpp"

#include <algorithm>
#include <cmath>

#include "daemon/cli/live/text.hpp"

namespace driftgate::cli::live {
namespace {

const char* code_of(Style style) {
  switch (style) {
    case Style::strong:
      return "\x1b[1m";
    case Style::faint:
      return "\x1b[2m";
    case Style::good:
      return "\x1b[32m";
    case Style::bad:
      return "\x1b[31m";
    case Style::warn:
      return "\x1b[33m";
    case Style::accent:
      return "\x1b[36m";
    case Style::plain:
      break;
  }
  return "";
}

}  // namespace

std::size_t width_of(const Line& line) {
  std::size_t width = 0;
  for (const Span& span : line) width += display_width(safe_text(span.text));
  return width;
}

std::string painted(const Line& line, std::size_t width, bool colour) {
  std::string out;
  std::size_t used = 0;
  const bool all = width_of(line) <= width;
  for (const Span& span : line) {
    if (used >= width) break;
    const std::string safe = safe_text(span.text);
    // The last span that fits in part carries the ellipsis; one that fits exactly does when more comes.
    const bool more = !all && used + display_width(safe) >= width;
    const std::string text = more ? fit(safe + "…", width - used) : fit(safe, width - used);
    used += display_width(text);
    const bool styled = colour && span.style != Style::plain && !text.empty();
    out += styled ? code_of(span.style) + text + "\x1b[0m" : text;
    if (more) break;
  }
  return out;
}

std::string bar(double share, std::size_t width) {
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  std::string out;
  for (std::size_t i = 0; i < width; ++i) out += static_cast<double>(i) + 0.5 <= filled ? "█" : "░";
  return out;
}

double level_of(double value, double needed) {
  if (!(value > 1)) return 0;
  if (!(needed > 1) || value >= needed) return 1;
  return std::log(value) / std::log(needed);
}

}  // namespace driftgate::cli::live
