#include "daemon/route/table/bucket.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "daemon/route/table/route.hpp"

using namespace driftgate::route;

namespace {

constexpr int kKeys = 100'000;

std::string key(int i) {
  return "user-" + std::to_string(i);
}

}  // namespace

TEST_CASE("a growing share only ever adds users") {
  const std::uint64_t seed = 42;
  std::set<int> served;
  for (const std::uint32_t share : {0u, 1u, 100u, 500u, 2'500u, 9'900u, 10'000u}) {
    std::set<int> now;
    for (int i = 0; i < 2'000; ++i) {
      if (bucket_of(key(i), seed) < share) now.insert(i);
    }
    CHECK(std::includes(now.begin(), now.end(), served.begin(), served.end()));
    served = now;
  }
  CHECK(served.size() == 2'000);
}

TEST_CASE("shares are met within five standard deviations") {
  for (const std::uint64_t seed : {0ULL, 1ULL, 0xffffffffffffffffULL}) {
    CAPTURE(seed);
    for (const std::uint32_t share : {100u, 1'000u, 5'000u}) {
      int hits = 0;
      for (int i = 0; i < kKeys; ++i) hits += bucket_of(key(i), seed) < share ? 1 : 0;
      const double p = share / 10'000.0;
      // Binomial: sd = sqrt(n p (1 - p)).
      CHECK(std::abs(hits - kKeys * p) < 5 * std::sqrt(kKeys * p * (1 - p)));
    }
  }
}

TEST_CASE("who is mirrored does not depend on the arm") {
  int both = 0;
  for (int i = 0; i < kKeys; ++i) {
    both += bucket_of(key(i), 7) < 5'000 && mirror_bucket_of(key(i), 7) < 5'000 ? 1 : 0;
  }
  // Independent halves: a quarter, sd = sqrt(n·¼·¾).
  CHECK(std::abs(both - kKeys * 0.25) < 5 * std::sqrt(kKeys * 0.1875));
}

TEST_CASE("another seed gives other buckets and another identity") {
  int same = 0;
  for (int i = 0; i < 1'000; ++i) same += bucket_of(key(i), 1) == bucket_of(key(i), 2) ? 1 : 0;
  CHECK(same < 10);
  CHECK(key_hash_of("a", 1) != key_hash_of("a", 2));
  CHECK(key_hash_of("a", 1) == key_hash_of("a", 1));
}

TEST_CASE("the texts that HAProxy hashes: figures of HAProxy 2.6.12") {
  CHECK(bucket_of("k1", 12'345, KeyHash::text) == 9'726);
  CHECK(bucket_of("k2", 12'345, KeyHash::text) == 1'079);
  CHECK(key_hash_of("k1", 12'345, KeyHash::text) == 2'394'375'539'675'904'544ULL);
  CHECK(key_hash_of("k2", 12'345, KeyHash::text) == static_cast<std::uint64_t>(-8'993'385'259'379'262'904LL));
}

TEST_CASE("texts split as the share says, and who is mirrored does not depend on the arm") {
  int hits = 0, both = 0;
  for (int i = 0; i < kKeys; ++i) {
    const bool candidate = bucket_of(key(i), 7, KeyHash::text) < 2'500;
    hits += candidate ? 1 : 0;
    both += candidate && mirror_bucket_of(key(i), 7, KeyHash::text) < 5'000 ? 1 : 0;
  }
  CHECK(std::abs(hits - kKeys * 0.25) < 5 * std::sqrt(kKeys * 0.1875));
  CHECK(std::abs(both - kKeys * 0.125) < 5 * std::sqrt(kKeys * 0.125 * 0.875));
}
