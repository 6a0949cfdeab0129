#pragma once

#include <string_view>

#include "daemon/schedule/cron.hpp"
#include "daemon/schedule/zone.hpp"

namespace driftgate::schedule {

/// When something recurs: a cron expression in a zone.
struct RecurringTime {
  Cron cron;
  Zone zone;
};

/// "0 7 * * * Europe/Berlin". `invalid_argument`.
[[nodiscard]] schema::Result<RecurringTime> parse_recurring_time(std::string_view text);

}  // namespace driftgate::schedule
