#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schedule {

inline constexpr std::size_t kMaxCronBytes = 256;

/// A cron expression: five fields with white space between, "minute hour day-of-month month day-of-week".
/// A field is a list of `*`, numbers, ranges `a-b` and steps `*/n`, `a-b/n`; months (jan … dec) and days of
/// the week (sun … sat; 0 and 7 are Sunday) have names. As in cron(8), when both day fields are restricted a
/// day that matches either matches; a field that begins with `*` is no restriction in this sense.
struct Cron {
  std::string text;
  std::bitset<60> minutes;
  std::bitset<24> hours;
  std::bitset<32> days;     ///< 1 … 31
  std::bitset<13> months;   ///< 1 … 12
  std::bitset<7> weekdays;  ///< 0 = Sunday
  bool any_day = false, any_weekday = false;
  bool any_hour = false;  ///< follows elapsed time through changes of the clock (fire_times.hpp)

  [[nodiscard]] bool matches_day(unsigned month, unsigned day, unsigned weekday) const;
};

/// `invalid_argument` naming the field, what was found and what is allowed. Also refused: a day that no
/// month of the expression has (30 February).
[[nodiscard]] schema::Result<Cron> parse_cron(std::string_view text);

}  // namespace driftgate::schedule
