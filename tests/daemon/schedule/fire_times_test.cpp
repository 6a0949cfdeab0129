#include "daemon/schedule/fire_times.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "daemon/schedule/misfire.hpp"
#include "daemon/schedule/report_time.hpp"

using namespace driftgate;
using namespace driftgate::schedule;

namespace {

Zone zone_of(const char* name) {
  auto zone = Zone::find(name);
  REQUIRE(zone.has_value());
  return *zone;
}

/// UTC seconds of a date and time.
std::int64_t utc(int year, unsigned month, unsigned day, int hour, int minute) {
  // Days from civil (H. Hinnant), written out here so that the test does not lean on what it tests.
  const int y = month <= 2 ? year - 1 : year;
  const std::int64_t era = y / 400;
  const auto yoe = static_cast<unsigned>(y - era * 400);
  const unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return ((era * 146'097 + doe - 719'468) * 24 + hour) * 3'600 + minute * 60;
}

std::vector<std::string> local(const char* expression, const char* name, std::int64_t after,
                               std::size_t count) {
  const auto zone = zone_of(name);
  std::vector<std::string> times;
  for (const auto fire : next_fires(parse_cron(expression).value(), zone, after, count))
    times.push_back(zone.format(fire));
  return times;
}

using Times = std::vector<std::string>;

}  // namespace

TEST_CASE("the next fire time is after the given one, never at it") {
  const auto cron = parse_cron("30 6 * * *").value();
  const auto zone = zone_of("UTC");
  const auto at = utc(2026, 5, 4, 6, 30);
  CHECK(next_fire(cron, zone, at - 1) == at);
  CHECK(next_fire(cron, zone, at) == at + 86'400);
}

TEST_CASE("days of week, of month and leap days come when the calendar has them") {
  CHECK(local("0 9 * * mon-fri", "Europe/Berlin", utc(2026, 1, 2, 12, 0), 2) ==
        Times{"2026-01-05 09:00:00 CET", "2026-01-06 09:00:00 CET"});
  CHECK(local("0 0 31 * *", "UTC", utc(2026, 1, 31, 0, 0), 2) ==
        Times{"2026-03-31 00:00:00 UTC", "2026-05-31 00:00:00 UTC"});
  CHECK(local("0 0 29 2 *", "UTC", utc(2096, 3, 1, 0, 0), 1) == Times{"2104-02-29 00:00:00 UTC"});
}

TEST_CASE("a fixed time that the clock skips fires once, at the first instant after the gap") {
  CHECK(local("30 2 * * *", "Europe/Berlin", utc(2026, 3, 28, 12, 0), 2) ==
        Times{"2026-03-29 03:00:00 CEST", "2026-03-30 02:30:00 CEST"});
  // Two skipped times and one that exists fall on the same instant: it fires once.
  CHECK(local("0,30 2,3 * * *", "Europe/Berlin", utc(2026, 3, 28, 12, 0), 3) ==
        Times{"2026-03-29 03:00:00 CEST", "2026-03-29 03:30:00 CEST", "2026-03-30 02:00:00 CEST"});
}

TEST_CASE("a fixed time that comes twice fires the first time only") {
  CHECK(local("30 2 * * *", "Europe/Berlin", utc(2026, 10, 24, 12, 0), 2) ==
        Times{"2026-10-25 02:30:00 CEST", "2026-10-26 02:30:00 CET"});
  CHECK(local("30 1 * * *", "America/New_York", utc(2026, 11, 1, 0, 0), 2) ==
        Times{"2026-11-01 01:30:00 EDT", "2026-11-02 01:30:00 EST"});
}

TEST_CASE("an expression for every hour follows elapsed time through both changes") {
  CHECK(local("30 * * * *", "Europe/Berlin", utc(2026, 3, 29, 0, 0), 3) ==
        Times{"2026-03-29 01:30:00 CET", "2026-03-29 03:30:00 CEST", "2026-03-29 04:30:00 CEST"});
  CHECK(local("30 * * * *", "Europe/Berlin", utc(2026, 10, 25, 0, 0), 3) ==
        Times{"2026-10-25 02:30:00 CEST", "2026-10-25 02:30:00 CET", "2026-10-25 03:30:00 CET"});
}

TEST_CASE("a day that a zone skipped altogether fires at its end, in order") {
  // Samoa had no 30 December 2011.
  CHECK(local("0 12 * * *", "Pacific/Apia", utc(2011, 12, 29, 0, 0), 3) ==
        Times{"2011-12-29 12:00:00 -10", "2011-12-31 00:00:00 +14", "2011-12-31 12:00:00 +14"});
}

TEST_CASE("fire times of every minute are a minute apart over a year in zones with and without changes") {
  for (const char* name : {"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}) {
    CAPTURE(name);
    const auto zone = zone_of(name);
    const auto cron = parse_cron("* * * * *").value();
    for (std::int64_t hour = 0; hour < 366 * 24; hour += 37) {
      const auto at = utc(2026, 1, 1, 0, 0) + hour * 3'600 + 1;
      REQUIRE(next_fire(cron, zone, at) == at + 59);
    }
  }
}

TEST_CASE(
    "the fire times of a range are those that follow each other one by one, through every change of the "
    "clock") {
  for (const char* name :
       {"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"}) {
    for (const char* text :
         {"30 2 * * *", "30 * * * *", "*/20 1-3 * * *", "0 12 1,15 * mon", "17 */5 * * *"}) {
      CAPTURE(name);
      CAPTURE(text);
      const auto zone = zone_of(name);
      const auto cron = parse_cron(text).value();
      const auto after = utc(2011, 12, 20, 3, 17), until = after + 500 * 86'400;
      const auto found = fires_between(cron, zone, after, until, 100'000);
      REQUIRE(found == next_fires(cron, zone, after, found.size()));
      CHECK(next_fire(cron, zone, found.back()).value() > until);
      const auto few = fires_between(cron, zone, after, until, 3);
      CHECK(few == next_fires(cron, zone, after, 3));
    }
  }
}

TEST_CASE("of more missed fire times than are counted the newest is decided") {
  const auto zone = zone_of("UTC");
  const auto cron = parse_cron("* * * * *").value();
  const auto due = utc(2026, 1, 1, 0, 0);
  const auto now = due + 20 * 3'600 + 90;
  const auto decided = decide_due(cron, zone, due, now, Misfire::run_once, 600);
  CHECK(decided.missed == kMaxMissed);
  CHECK(decided.fire_s == due + 20 * 3'600 + 60);
  CHECK(decided.run);
  CHECK_FALSE(decided.late);
  CHECK(decided.next_s == due + 20 * 3'600 + 120);
  const auto yearly = parse_cron("0 0 1 1 *").value();
  const auto last = decide_due(yearly, zone, due, utc(2028, 6, 1, 0, 0), Misfire::skip, 0);
  CHECK(last.fire_s == utc(2028, 1, 1, 0, 0));
  CHECK_FALSE(last.run);
}

TEST_CASE("a time that recurs is an expression and a zone") {
  const auto time = parse_recurring_time("0 7 * * mon-fri Europe/Berlin");
  REQUIRE(time.has_value());
  CHECK(time->cron.text == "0 7 * * mon-fri");
  CHECK(time->zone.name() == "Europe/Berlin");
  for (const char* bad : {"", "   ", "0 7 * * *", "0 7 * * * Nowhere", "7 * * * UTC", "0 7 * * * UTC more"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_recurring_time(bad).has_value());
  }
}

TEST_CASE("a zone that the database does not have is refused by name") {
  for (const char* name : {"Europe/Berlln", "", "../../etc/passwd", "CEST "}) {
    CAPTURE(name);
    CHECK_FALSE(Zone::find(name).has_value());
  }
}
