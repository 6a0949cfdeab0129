#include "daemon/cli/time_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace driftgate::cli {
namespace {

using schema::ErrorCode;

/// Reads exactly `digits` digits from the front of `text`, and `after` if it is not 0.
bool take(std::string_view& text, std::size_t digits, char after, int& value) {
  // from_chars reads a sign too.
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (text.size() < digits || !std::ranges::all_of(text.substr(0, digits), is_digit)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc{} || end != text.data() + digits) return false;
  text.remove_prefix(digits);
  if (after == 0) return true;
  if (text.empty() || text.front() != after) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

schema::Result<std::int64_t> parse_time(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && number >= 0 && text.front() != '-')
    return number;
  std::string_view rest = text;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  bool valid = take(rest, 4, '-', year) && take(rest, 2, '-', month) && take(rest, 2, 0, day);
  if (valid && !rest.empty()) {
    valid = rest.front() == 'T' || rest.front() == ' ';
    rest.remove_prefix(1);
    valid = valid && take(rest, 2, ':', hour) && take(rest, 2, ':', minute) && take(rest, 2, 0, second);
    if (rest == "Z") rest = {};
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!valid || !rest.empty() || !date.ok() || year < 1970 || hour > 23 || minute > 59 || second > 59) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("'{}' is no time: write 2026-01-31 or 2026-01-31T12:00:05 (UTC)", text));
  }
  const auto since = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
                     std::chrono::minutes(minute) + std::chrono::seconds(second);
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

}  // namespace driftgate::cli
