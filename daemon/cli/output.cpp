#include "daemon/cli/output.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>

namespace driftgate::cli {
namespace {

/// Characters on a terminal: UTF-8 continuation bytes take no room.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& cell : header) widths.push_back(width(cell));
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  std::string out;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - width(row[i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  };
  add(header);
  for (const auto& row : rows) add(row);
  return out;
}

std::string format_time(std::int64_t time_us) {
  const std::time_t seconds = time_us / 1'000'000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(seconds));
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    const bool second_set = byte == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 to U+009F
    out += byte < 0x20 || byte == 0x7f || second_set ? ' ' : text[i];
    if (second_set) ++i;
  }
  return out;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_line(std::string_view text) {
  print(std::string(text) + "\n");
}

bool is_conversation() {
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

bool confirmed(std::string_view question) {
  fmt::print(stderr, "{}", question);
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace driftgate::cli
