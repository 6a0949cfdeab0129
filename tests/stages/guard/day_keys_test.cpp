#include "stages/guard/day_keys.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {
constexpr std::int64_t kDay = DayKeys::kDayUs;
}

TEST_CASE("each key counts once a day") {
  DayKeys keys;
  CHECK(keys.first(7, kDay));
  CHECK_FALSE(keys.first(7, kDay + 1));
  CHECK(keys.first(8, kDay + 1));
  CHECK_FALSE(keys.first(7, 2 * kDay - 1));
  CHECK(keys.first(7, 2 * kDay));
  CHECK(keys.day() == 2);
  CHECK(keys.size() == 1);
  CHECK_FALSE(keys.first(7, kDay));  // the clock was set back: still the same key of the newest day
}

TEST_CASE("with too many keys half of them are left out, by their hash alone, and the rest counts on") {
  DayKeys keys(1'000);
  Random random(3);
  std::vector<std::uint64_t> all;
  std::set<std::uint64_t> counted;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(random.next());
    if (keys.first(all.back(), kDay)) counted.insert(all.back());
    REQUIRE(keys.size() < 1'000);
  }
  CHECK(keys.halvings() >= 4);
  CHECK(keys.halvings() <= 6);
  // Nobody counts twice, also those that were forgotten.
  for (const std::uint64_t key : all) CHECK_FALSE((keys.first(key, kDay + 1) && counted.contains(key)));
  CHECK(keys.first(all.front(), 2 * kDay));
  CHECK(keys.halvings() == 0);
}

TEST_CASE("the keys of a day can be stored in parts and read back") {
  Random random(4);
  DayKeys steady(500), stored(500);
  std::vector<std::uint64_t> kept;
  std::vector<std::uint64_t> seen;
  for (int i = 0; i < 3'000; ++i) {
    const bool again = !seen.empty() && random.uniform() < 0.3;
    const std::uint64_t key = again ? seen[random.below(seen.size())] : random.next();
    seen.push_back(key);
    const std::int64_t at = kDay + i;
    CHECK(steady.first(key, at) == stored.first(key, at));
    if (random.uniform() > 0.02) continue;
    for (const std::uint64_t fresh : stored.take_new()) kept.push_back(fresh);
    DayKeys read(500);
    read.resume(stored.day(), stored.halvings(), kept);
    stored = read;
  }
  CHECK(stored.size() == steady.size());
  CHECK(stored.halvings() == steady.halvings());
}
