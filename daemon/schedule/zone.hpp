#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace date {
class time_zone;
}

namespace driftgate::schedule {

/// A local civil time: days since 1970-01-01 and minutes since midnight, both of the wall clock in a zone.
struct LocalMinute {
  std::int64_t day = 0;
  int minute = 0;
};

/// What a local time is in UTC (seconds since the epoch).
struct Resolved {
  enum class Kind { once, twice, never } kind = Kind::once;
  std::int64_t first = 0;   ///< the only, the earlier, or for `never` the first instant after the gap
  std::int64_t second = 0;  ///< of `twice`
};

/// A time zone of the system's IANA database.
class Zone {
 public:
  /// "Europe/Berlin", "UTC". `invalid_argument` when the database has no zone of that name.
  [[nodiscard]] static schema::Result<Zone> find(std::string_view name);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Resolved to_utc(const LocalMinute& local) const;
  [[nodiscard]] LocalMinute to_local(std::int64_t utc_s) const;
  /// "2026-03-29 03:00:00 CEST"
  [[nodiscard]] std::string format(std::int64_t utc_s) const;

 private:
  Zone(std::string name, const date::time_zone* zone) : name_(std::move(name)), zone_(zone) {}
  std::string name_;
  const date::time_zone* zone_;  ///< of the library's database, which is never freed
};

/// Year, month, day and weekday (0 = Sunday) of a day since 1970-01-01.
struct CivilDay {
  int year = 0;
  unsigned month = 0, day = 0, weekday = 0;
};
[[nodiscard]] CivilDay civil_day(std::int64_t day);

}  // namespace driftgate::schedule
