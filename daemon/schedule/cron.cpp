#include "daemon/schedule/cron.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace driftgate::schedule {
namespace {

using schema::ErrorCode;

constexpr std::array<std::string_view, 12> kMonths{"jan", "feb", "mar", "apr", "may", "jun",
                                                   "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays{"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr std::array<unsigned, 13> kLongest{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

struct Field {
  std::string_view name;
  unsigned low, high;
  std::span<const std::string_view> names;  ///< of `first_name` and on
  unsigned first_name;
};
const std::array<Field, 5> kFields{{{"minute", 0, 59, {}, 0},
                                    {"hour", 0, 23, {}, 0},
                                    {"day of month", 1, 31, {}, 0},
                                    {"month", 1, 12, kMonths, 1},
                                    {"day of week", 0, 7, kWeekdays, 0}}};

std::unexpected<schema::Error> fault(const Field& field, std::string_view found, std::string_view why) {
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format(
          "cron: the {} field has '{}': {}; allowed: *, {} to {}{}, ranges a-b, steps "
          "*/n and a-b/n, lists with ','",
          field.name, found, why, field.low, field.high,
          field.names.empty() ? "" : fmt::format(", {} to {}", field.names.front(), field.names.back())));
}

std::optional<unsigned> whole_number(std::string_view text) {
  unsigned value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

schema::Result<unsigned> read_number(std::string_view text, const Field& field) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (const auto at = std::ranges::find(field.names, lower); at != field.names.end())
    return static_cast<unsigned>(at - field.names.begin()) + field.first_name;
  const auto value = whole_number(text);
  if (!value) return fault(field, text, "it is not a number");
  if (*value < field.low || *value > field.high) return fault(field, text, "it is out of range");
  return *value;
}

/// One item of a field's list, as bits.
schema::Result<std::uint64_t> read_item(std::string_view item, const Field& field) {
  const auto slash = item.find('/');
  const auto range = item.substr(0, slash);
  unsigned low = field.low;
  unsigned high = field.high;
  bool is_range = range == "*";
  if (!is_range) {
    const auto dash = range.find('-');
    is_range = dash != range.npos;
    auto first = TRY(read_number(range.substr(0, dash), field));
    low = high = first;
    if (is_range) {
      auto last = TRY(read_number(range.substr(dash + 1), field));
      high = last;
      if (high < low) return fault(field, item, "the range ends before it begins");
    }
  }
  unsigned step = 1;
  if (slash != item.npos) {
    step = whole_number(item.substr(slash + 1)).value_or(0);
    if (step < 1 || step > field.high)
      return fault(field, item, fmt::format("the step must be a number from 1 to {}", field.high));
    if (!is_range) return fault(field, item, "a step needs a range or *");
  }
  std::uint64_t bits = 0;
  for (unsigned value = low; value <= high; value += step) bits |= std::uint64_t{1} << value;
  return bits;
}

schema::Result<std::uint64_t> read_field(std::string_view text, const Field& field) {
  std::uint64_t bits = 0;
  while (true) {
    const auto comma = text.find(',');
    auto item = TRY(read_item(text.substr(0, comma), field));
    bits |= item;
    if (comma == text.npos) return bits;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const auto start = text.find_first_not_of(" \t");
    if (start == text.npos) return words;
    text.remove_prefix(start);
    const auto end = std::min(text.find_first_of(" \t"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

/// Whether some day of the year is meant at all.
bool can_fire(const Cron& cron) {
  if (cron.any_day || !cron.any_weekday) return true;
  for (unsigned month = 1; month <= 12; ++month) {
    for (unsigned day = 1; day <= kLongest.at(month); ++day)
      if (cron.months[month] && cron.days[day]) return true;
  }
  return false;
}

}  // namespace

bool Cron::matches_day(unsigned month, unsigned day, unsigned weekday) const {
  if (!months[month]) return false;
  if (any_day || any_weekday) return days[day] && weekdays[weekday];
  return days[day] || weekdays[weekday];
}

schema::Result<Cron> parse_cron(std::string_view text) {
  if (text.size() > kMaxCronBytes)
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("cron: an expression has at most {} characters", kMaxCronBytes));
  const auto words = split(text);
  if (words.size() != kFields.size()) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("cron: '{}' has {} fields, not 5: minute hour day-of-month month day-of-week{}", text,
                    words.size(), text.starts_with('@') ? "; names such as @daily are not known" : ""));
  }
  std::array<std::uint64_t, 5> bits{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto field = TRY(read_field(words[i], kFields.at(i)));
    bits.at(i) = field;
  }
  Cron cron;
  for (const auto word : words) cron.text += (cron.text.empty() ? "" : " ") + std::string(word);
  cron.minutes = bits[0];
  cron.hours = bits[1];
  cron.days = bits[2];
  cron.months = bits[3];
  cron.weekdays = (bits[4] | bits[4] >> 7) & 0x7F;
  cron.any_hour = words[1].starts_with('*');
  cron.any_day = words[2].starts_with('*');
  cron.any_weekday = words[4].starts_with('*');
  if (!can_fire(cron))
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("cron: '{}' never fires: no month of it has such a day", text));
  return cron;
}

}  // namespace driftgate::schedule
