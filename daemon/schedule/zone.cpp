#include "daemon/schedule/zone.hpp"

#include <date/date.h>
#include <date/tz.h>
#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

namespace driftgate::schedule {

using schema::ErrorCode;

schema::Result<Zone> Zone::find(std::string_view name) {
  constexpr std::size_t kMaxNameBytes = 64;
  const auto unknown = [&] {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is not a time zone in this system's database; use a name such as UTC or "
                    "Europe/Berlin",
                    name.substr(0, kMaxNameBytes)));
  };
  if (name.empty() || name.size() > kMaxNameBytes) return unknown();
  try {  // The library has no other way to say that a zone is unknown.
    return Zone(std::string(name), date::locate_zone(std::string(name)));
  } catch (const std::runtime_error&) {
    return unknown();
  }
}

Resolved Zone::to_utc(const LocalMinute& local) const {
  const date::local_seconds time{date::days(local.day) + std::chrono::minutes(local.minute)};
  const auto info = zone_->get_info(time);
  const auto utc = [&](const date::sys_info& part) {
    return (time.time_since_epoch() - part.offset).count();
  };
  switch (info.result) {
    case date::local_info::ambiguous:
      return {Resolved::Kind::twice, utc(info.first), utc(info.second)};
    case date::local_info::nonexistent:
      return {Resolved::Kind::never, info.first.end.time_since_epoch().count(), 0};
    default:
      return {Resolved::Kind::once, utc(info.first), 0};
  }
}

LocalMinute Zone::to_local(std::int64_t utc_s) const {
  const auto local = zone_->to_local(date::sys_seconds{std::chrono::seconds(utc_s)});
  const auto day = date::floor<date::days>(local);
  return {day.time_since_epoch().count(),
          static_cast<int>(date::floor<std::chrono::minutes>(local - day).count())};
}

std::string Zone::format(std::int64_t utc_s) const {
  return date::format("%F %T %Z", date::make_zoned(zone_, date::sys_seconds{std::chrono::seconds(utc_s)}));
}

CivilDay civil_day(std::int64_t day) {
  const date::sys_days days{date::days(day)};
  const date::year_month_day civil(days);
  return {static_cast<int>(civil.year()), static_cast<unsigned>(civil.month()),
          static_cast<unsigned>(civil.day()), date::weekday(days).c_encoding()};
}

}  // namespace driftgate::schedule
