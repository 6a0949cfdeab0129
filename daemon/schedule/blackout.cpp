#include "daemon/schedule/blackout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "daemon/schedule/fire_times.hpp"

namespace driftgate::schedule {
namespace {

using schema::ErrorCode;

constexpr std::size_t kCronFields = 5;

/// "62h", "1d12h" in seconds; 0 when it is not a duration.
std::int64_t duration_of(const std::string& text) {
  std::int64_t total = 0;
  std::int64_t number = -1;
  for (const char c : text) {
    if ('0' <= c && c <= '9') {
      number = std::max<std::int64_t>(number, 0) * 10 + (c - '0');
      if (number > kMaxBlackoutSeconds) return 0;
      continue;
    }
    const std::int64_t unit = c == 'd' ? 86'400 : c == 'h' ? 3'600 : c == 'm' ? 60 : 0;
    if (number < 0 || unit == 0) return 0;
    total += number * unit;
    number = -1;
  }
  return number < 0 && total <= kMaxBlackoutSeconds ? total : 0;
}

}  // namespace

bool Blackout::covers(std::string_view name, std::int64_t utc_s) const {
  if (!model.empty() && model != name) return false;
  const auto start = next_fire(starts, zone, utc_s - lasts_s);
  return start && *start <= utc_s;
}

schema::Result<Blackout> parse_blackout(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() < kCronFields + 2 || words.size() > kCronFields + 3) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("a blackout is 'MINUTE HOUR DAY MONTH WEEKDAY DURATION ZONE [MODEL]', not "
                    "'{}'",
                    text));
  }
  std::string expression;
  for (std::size_t i = 0; i < kCronFields; ++i) expression += (i == 0 ? "" : " ") + words[i];
  auto cron = TRY(parse_cron(expression));
  const auto lasts = duration_of(words[kCronFields]);
  if (lasts <= 0) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("a blackout lasts 1m to 31d, such as 62h or 1d12h, not '{}'", words[kCronFields]));
  }
  auto zone = TRY(Zone::find(words[kCronFields + 1]));
  return Blackout{std::string(text), std::move(cron), lasts, std::move(zone),
                  words.size() > kCronFields + 2 ? words.back() : std::string()};
}

const Blackout* find_blackout(std::span<const Blackout> all, std::string_view model, std::int64_t utc_s) {
  const auto found =
      std::ranges::find_if(all, [&](const Blackout& blackout) { return blackout.covers(model, utc_s); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace driftgate::schedule
