#include "daemon/cli/time_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace driftgate::cli {
namespace {

using schema::ErrorCode;

/// Whether `text` has a digit where `form` has '0', a 'T' or a space where it has 'T', and else the same.
bool has_form(std::string_view text, std::string_view form) {
  return std::ranges::equal(text, form, [](char c, char wanted) {
    return wanted == '0' ? '0' <= c && c <= '9' : c == wanted || (wanted == 'T' && c == ' ');
  });
}

}  // namespace

schema::Result<std::int64_t> parse_time(std::string_view text) {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
  if (text == "now")
    return std::int64_t{duration_cast<microseconds>(system_clock::now().time_since_epoch()).count()};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && text.front() != '-') return number;
  const bool valid = has_form(text, "0000-00-00") || has_form(text, "0000-00-00T00:00:00") ||
                     has_form(text, "0000-00-00T00:00:00Z");
  const auto part = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    if (valid && at < text.size()) std::from_chars(text.data() + at, text.data() + at + digits, value);
    return value;
  };
  const int year = part(0, 4), hour = part(11, 2), minute = part(14, 2), second = part(17, 2);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(part(8, 2)))};
  if (!valid || !date.ok() || year < 1970 || hour > 23 || minute > 59 || second > 59) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is not a time: write 2026-01-31, 2026-01-31T12:00:05 (UTC) or now", text));
  }
  const auto since = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
                     std::chrono::minutes(minute) + std::chrono::seconds(second);
  return duration_cast<microseconds>(since).count();
}

}  // namespace driftgate::cli
