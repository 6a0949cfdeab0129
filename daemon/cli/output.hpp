#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace driftgate::cli {

/// Rows under a header, columns as wide as their widest cell, two spaces between.
[[nodiscard]] std::string format_table(const std::vector<std::string>& header,
                                       const std::vector<std::vector<std::string>>& rows);

/// "2026-01-31 12:00:05" in UTC.
[[nodiscard]] std::string format_time(std::int64_t time_us);

/// `text` without control characters, so that what comes from outside cannot steer a terminal.
[[nodiscard]] std::string printable(std::string_view text);

void print(std::string_view text);       ///< to standard output
void print_line(std::string_view text);  ///< with a newline, flushed

/// Whether a person can be asked: standard input and output are a terminal.
[[nodiscard]] bool is_conversation();
/// Asks on standard error and reads a line of standard input: whether it is "y" or "yes".
[[nodiscard]] bool confirmed(std::string_view question);

}  // namespace driftgate::cli
