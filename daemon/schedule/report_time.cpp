#include "daemon/schedule/report_time.hpp"

#include <fmt/format.h>

namespace driftgate::schedule {

schema::Result<RecurringTime> parse_recurring_time(std::string_view text) {
  const auto last = text.find_last_not_of(" \t");
  const auto gap = last == text.npos ? text.npos : text.find_last_of(" \t", last);
  if (gap == text.npos) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("a time that recurs is 'MINUTE HOUR DAY MONTH WEEKDAY ZONE', such as '0 7 * * * "
                    "Europe/Berlin', not '{}'",
                    text));
  }
  auto cron = TRY(parse_cron(text.substr(0, gap)));
  auto zone = TRY(Zone::find(text.substr(gap + 1, last - gap)));
  return RecurringTime{std::move(cron), std::move(zone)};
}

}  // namespace driftgate::schedule
