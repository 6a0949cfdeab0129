#include "stages/canary/key_periods.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {
constexpr std::int64_t kStart = 500'000 * kKeyPeriodUs;
}

TEST_CASE("each key counts once in each of its hours") {
  KeyPeriods keys;
  // The first moment of the next hour of key 7.
  const std::int64_t next = [] {
    std::int64_t at = kStart;
    for (std::int64_t step = kKeyPeriodUs; step > 0; step /= 2) {
      while (key_period(7, at + step) == key_period(7, kStart)) at += step;
    }
    return at + 1;
  }();
  CHECK(next - kStart <= kKeyPeriodUs);
  CHECK(keys.first(7, kStart));
  CHECK_FALSE(keys.first(7, kStart + 1));
  CHECK(keys.first(8, kStart + 1));
  CHECK_FALSE(keys.first(7, next - 1));
  CHECK(keys.first(7, next));
  CHECK_FALSE(keys.first(7, next + kKeyPeriodUs - 1));
  CHECK(keys.first(7, next + kKeyPeriodUs));
  CHECK_FALSE(keys.first(7, kStart));  // the clock was set back: still the newest hour
}

TEST_CASE("the hours of keys begin at all moments of an hour alike") {
  Random random(11);
  std::vector<int> begun(12);
  for (int i = 0; i < 12'000; ++i) {
    const std::uint64_t key = random.next();
    for (std::size_t part = 0; part < begun.size(); ++part) {
      const std::int64_t at = kStart + static_cast<std::int64_t>(part) * (kKeyPeriodUs / 12);
      begun[part] += key_period(key, at) < key_period(key, at + kKeyPeriodUs / 12) ? 1 : 0;
    }
  }
  for (const int count : begun) {
    CHECK(count > 1'000 - 150);  // five standard deviations
    CHECK(count < 1'000 + 150);
  }
}

TEST_CASE("with too many keys some are left out by their hash alone, and come back when there are fewer") {
  KeyPeriods keys(1'000);
  Random random(3);
  std::vector<std::uint64_t> all;
  std::set<std::uint64_t> counted;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(random.next());
    if (keys.first(all.back(), kStart)) counted.insert(all.back());
    REQUIRE(keys.size() < 1'000);
  }
  CHECK(keys.halvings() >= 4);
  CHECK(keys.halvings() <= 6);
  // Nobody counts twice, also those that were forgotten.
  for (const std::uint64_t key : all) CHECK_FALSE((keys.first(key, kStart + 1) && counted.contains(key)));
  const std::uint32_t most = keys.halvings();
  for (int hour = 1; hour <= 10; ++hour) (void)keys.first(all.front(), kStart + hour * kKeyPeriodUs);
  CHECK(most - keys.halvings() == most);
  CHECK(keys.size() <= 1);
}

TEST_CASE("counted keys can be stored in parts and read back") {
  Random random(4);
  KeyPeriods steady(500), stored(500);
  std::vector<CountedKey> kept;
  std::vector<std::uint64_t> seen;
  std::int64_t at = kStart;
  for (int i = 0; i < 6'000; ++i) {
    const bool again = !seen.empty() && random.uniform() < 0.6;
    const std::uint64_t key = again ? seen[random.below(seen.size())] : random.next();
    seen.push_back(key);
    at += static_cast<std::int64_t>(random.below(20'000'000));
    REQUIRE(steady.first(key, at) == stored.first(key, at));
    if (random.uniform() > 0.02) continue;
    for (const CountedKey& fresh : stored.take_new()) kept.push_back(fresh);
    KeyPeriods read(500);
    read.resume(stored.newest_us(), stored.swept_us(), stored.halvings(), kept);
    stored = read;
  }
  CHECK(stored.size() == steady.size());
  CHECK(stored.halvings() == steady.halvings());
}
