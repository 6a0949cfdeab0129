#include "daemon/store/id.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace driftgate::store;

TEST_CASE("an id is its prefix, ten digits of time and sixteen of randomness") {
  CHECK(make_id("pr", 0, IdRandom{}) == "pr-00000000000000000000000000");
  CHECK(make_id("pr", 31'000, IdRandom{}) == "pr-000000000z0000000000000000");
  CHECK(make_id("job", 0, {0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1}) == "job-0000000000zzzzzzzz00000001");
}

TEST_CASE("ids sort by time whatever their randomness") {
  IdRandom low{};
  IdRandom high{};
  high.fill(0xff);
  for (std::int64_t ms = 1; ms < (1ll << 47); ms *= 2) {
    CAPTURE(ms);
    CHECK(make_id("pr", (ms - 1) * 1'000, high) < make_id("pr", ms * 1'000, low));
  }
}

TEST_CASE("random bits differ from call to call") {
  std::set<IdRandom> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(secure_id_random());
  CHECK(seen.size() == 1'000);
}
