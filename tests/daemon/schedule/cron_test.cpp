#include "daemon/schedule/cron.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace driftgate;
using driftgate::schedule::parse_cron;

namespace {

template <std::size_t N>
std::vector<int> values(const std::bitset<N>& bits) {
  std::vector<int> list;
  for (std::size_t i = 0; i < N; ++i)
    if (bits[i]) list.push_back(static_cast<int>(i));
  return list;
}

}  // namespace

TEST_CASE("numbers, names, ranges, steps and lists are read") {
  const auto cron = parse_cron(" 5,10-12,50-59/4\t*/6  1,31 jan,MAR-may/2,12 Mon-fri,7 ");
  REQUIRE(cron.has_value());
  CHECK(values(cron->minutes) == std::vector{5, 10, 11, 12, 50, 54, 58});
  CHECK(values(cron->hours) == std::vector{0, 6, 12, 18});
  CHECK(values(cron->days) == std::vector{1, 31});
  CHECK(values(cron->months) == std::vector{1, 3, 5, 12});
  CHECK(values(cron->weekdays) == std::vector{0, 1, 2, 3, 4, 5});
  CHECK(cron->any_hour);
  CHECK_FALSE(cron->any_day);
  CHECK(cron->text == "5,10-12,50-59/4 */6 1,31 jan,MAR-may/2,12 Mon-fri,7");
}

TEST_CASE("when both day fields are restricted either of them suffices, as in cron") {
  const auto either = parse_cron("0 0 13 * fri");
  CHECK(either->matches_day(2, 13, 1));
  CHECK(either->matches_day(2, 14, 5));
  CHECK_FALSE(either->matches_day(2, 14, 6));
  const auto both = parse_cron("0 0 13 * *");
  CHECK(both->matches_day(2, 13, 1));
  CHECK_FALSE(both->matches_day(2, 14, 5));
}

TEST_CASE("what is no cron expression is refused with the field and what is allowed") {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"", "has 0 fields, not 5"},
      {"* * * *", "has 4 fields, not 5"},
      {"* * * * * *", "has 6 fields, not 5"},
      {"@daily", "names such as @daily are not known"},
      {"60 * * * *", "the minute field has '60': it is out of range; allowed: *, 0 to 59"},
      {"-1 * * * *", "the minute field has '': it is not a number"},
      {"* 24 * * *", "the hour field has '24'"},
      {"* * 0 * *", "the day of month field has '0'"},
      {"* * * 13 *", "the month field has '13': it is out of range; allowed: *, 1 to 12, jan to dec"},
      {"* * * * 8", "the day of week field has '8'"},
      {"* * * * mo", "the day of week field has 'mo': it is not a number"},
      {"5-1 * * * *", "the range ends before it begins"},
      {"*/0 * * * *", "the step must be a number from 1 to 59"},
      {"*/ * * * *", "the step must be"},
      {"5/10 * * * *", "a step needs a range or *"},
      {"1,,2 * * * *", "the minute field has ''"},
      {"1, * * * *", "the minute field has ''"},
      {"1- * * * *", "it is not a number"},
      {"4294967296 * * * *", "it is not a number"},
      {"* * 30 feb *", "never fires"},
      {"0x5 * * * *", "it is not a number"},
      {std::string(300, '*'), "at most 256 characters"},
  };
  for (const auto& [text, expected] : bad) {
    CAPTURE(text);
    const auto cron = parse_cron(text);
    REQUIRE_FALSE(cron.has_value());
    CHECK_MESSAGE(cron.error().message.find(expected) != std::string::npos, cron.error().message);
  }
  CHECK(parse_cron("* * 29 feb *").has_value());
}
