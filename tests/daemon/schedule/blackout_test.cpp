#include "daemon/schedule/blackout.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace driftgate::schedule;

namespace {
constexpr std::int64_t kFriday18 = 1'767'376'800;  ///< 2026-01-02 18:00:00 UTC, a Friday
}

TEST_CASE("a blackout covers from its start to before its end") {
  const auto weekend = parse_blackout("0 18 * * fri 62h UTC").value();
  CHECK_FALSE(weekend.covers("m", kFriday18 - 1));
  CHECK(weekend.covers("m", kFriday18));
  CHECK(weekend.covers("m", kFriday18 + 62 * 3'600 - 1));
  CHECK_FALSE(weekend.covers("m", kFriday18 + 62 * 3'600));
}

TEST_CASE("a blackout of one model leaves the others alone, and its zone counts") {
  const std::vector all{parse_blackout("0 18 * * fri 1h30m Europe/Berlin tiny").value()};
  CHECK(find_blackout(all, "tiny", kFriday18 - 3'600) == &all[0]);
  CHECK(find_blackout(all, "other", kFriday18 - 3'600) == nullptr);
  CHECK(find_blackout(all, "tiny", kFriday18 + 1'800) == nullptr);
}

TEST_CASE("what is no blackout is refused") {
  for (const char* text :
       {"", "0 18 * * fri", "0 18 * * fri 62h", "0 18 * * fri 62 UTC", "0 18 * * fri h UTC",
        "0 18 * * fri 0h UTC", "0 18 * * fri 32d UTC", "0 18 * * fri 99999999999999999999h UTC",
        "0 18 * * fri 1h Nowhere/City", "61 18 * * fri 1h UTC", "0 18 * * fri 1h UTC m x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_blackout(text).has_value());
  }
}
