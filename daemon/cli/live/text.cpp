#include "daemon/cli/live/text.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/cli/live/character_widths.hpp"
#include "schema/utf8.hpp"

namespace driftgate::cli::live {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "…";
constexpr int kMostMarks = 2;  // on one character; more would reach into the lines above and below

/// The character that begins at `at` and its length in bytes; length 0 where none begins.
struct Decoded {
  char32_t character;
  std::size_t bytes;
};

Decoded decode(std::string_view text, std::size_t at) {
  const std::size_t bytes = schema::utf8_length(text, at);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (bytes == 0) return {0, 0};
  if (bytes == 1) return {byte(0), 1};
  char32_t character = byte(0) & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) character = (character << 6U) | (byte(i) & 0x3FU);
  return {character, bytes};
}

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/// A selector between the drawings of a character: left out, since terminals disagree about its width.
bool is_variation(char32_t c) {
  return (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0xE0100 && c <= 0xE01EF);
}

/// The longest beginning of safe text that takes at most `width` columns, in bytes.
std::size_t bytes_within(std::string_view text, std::size_t width) {
  std::size_t at = 0, used = 0;
  while (at < text.size()) {
    const auto [character, bytes] = decode(text, at);
    used += columns_of(character);
    if (used > width) break;
    at += std::max<std::size_t>(bytes, 1);
  }
  return at;
}

/// Where a line of at most `width` columns ends, in bytes: between words, or inside one that fits no line.
std::size_t break_of(std::string_view text, std::size_t width) {
  const std::size_t end = bytes_within(text, width);
  if (end == text.size() || text[end] == ' ') return end;
  const std::size_t space = text.substr(0, end).rfind(' ');
  if (space != std::string_view::npos && space > 0) return space;
  return std::max<std::size_t>(end, 1);
}

}  // namespace

std::string safe_text(std::string_view text) {
  std::string out;
  int marks = kMostMarks;  // a mark has nothing to stand on at the beginning
  for (std::size_t at = 0; at < text.size();) {
    const auto [character, bytes] = decode(text, at);
    const std::string_view raw = text.substr(at, std::max<std::size_t>(bytes, 1));
    at += raw.size();
    if (bytes == 0 || is_hidden(character)) {
      out += kReplacement;
      marks = 0;
    } else if (is_control(character)) {
      out += ' ';
      marks = kMostMarks;
    } else if (is_variation(character)) {
      continue;
    } else if (columns_of(character) > 0) {
      out += raw;
      marks = 0;
    } else if (marks < kMostMarks) {
      out += raw;
      ++marks;
    }
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [character, bytes] = decode(text, at);
    width += columns_of(character);
    at += std::max<std::size_t>(bytes, 1);
  }
  return width;
}

std::string fit(std::string_view text, std::size_t width) {
  const std::string safe = safe_text(text);
  if (display_width(safe) <= width) return safe;
  if (width == 0) return {};
  return safe.substr(0, bytes_within(safe, width - 1)) + std::string(kEllipsis);
}

std::string pad(std::string_view text, std::size_t width) {
  std::string out = fit(text, width);
  out.append(width - std::min(width, display_width(out)), ' ');
  return out;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width, std::size_t most) {
  const std::string safe = safe_text(text);
  std::vector<std::string> lines;
  std::string_view rest = safe;
  while (!rest.empty() && width > 1 && lines.size() < most) {
    if (lines.size() + 1 == most) {
      lines.push_back(fit(rest, width));
      break;
    }
    const std::size_t end = break_of(rest, width);
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ', end)));
  }
  return lines;
}

std::string figure_text(double value) {
  return fmt::format("{:.4g}", value);
}

std::string duration_text(long long duration_us) {
  const long long seconds = std::max(0LL, duration_us / 1'000'000);
  const long long minutes = seconds / 60, hours = minutes / 60;
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (minutes < 120) return fmt::format("{} min", minutes);
  if (hours < 48)
    return minutes % 60 == 0 ? fmt::format("{} h", hours) : fmt::format("{} h {} min", hours, minutes % 60);
  return fmt::format("{} d", hours / 24);
}

}  // namespace driftgate::cli::live
