#include "daemon/pipeline/stages/incumbent_history.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace driftgate;
using namespace driftgate::pipeline;

namespace {

constexpr std::int64_t kStart = 1'700'000'000'000'000;

route::ModelRoute route_of(const std::string& version) {
  route::ModelRoute route;
  route.model = "m";
  route.incumbent.version = version;
  return route;
}

/// Two minutes of requests, one a second, of which every tenth fails.
route::Window window(std::uint64_t number, std::int64_t from_s, const std::string& router = "r") {
  route::Window made;
  made.number = number;
  made.router_id = router;
  made.model = "m";
  for (std::int64_t i = 0; i < 120; ++i) {
    route::Observation seen;
    seen.key_hash = static_cast<std::uint64_t>(1'000 * number) + static_cast<std::uint64_t>(i);
    seen.outcome = i % 10 == 0 ? route::Outcome::failed : route::Outcome::ok;
    seen.routed_us = kStart + 1'000'000 * (from_s + i);
    seen.ttft_ms = i < 60 ? 100 : 300;
    made.observations.push_back(seen);
  }
  return made;
}

}  // namespace

TEST_CASE(
    "what the incumbent served is remembered once, and nothing that the candidate or the fallback served") {
  IncumbentHistory history;
  history.add(window(1, 0), route_of("v1"));
  CHECK(history.failures().requests() == 120);
  CHECK(history.failures().failures() == 12);
  history.add(window(1, 0), route_of("v1"));
  CHECK(history.failures().requests() == 120);
  auto mixed = window(2, 120);
  for (std::size_t i = 0; i < 60; ++i) mixed.observations[i].candidate = true;
  mixed.observations[60].pinned = true;
  mixed.observations[61].outcome = route::Outcome::excluded;
  history.add(mixed, route_of("v1"));
  CHECK(history.failures().requests() == 178);
  auto away = route_of("v1");
  away.slices.push_back({{{"language", "de"}}, 0, true});
  history.add(window(3, 240), away);
  CHECK(history.failures().requests() == 178);
  history.add(window(1, 360, "another router"), route_of("v1"));
  CHECK(history.failures().requests() == 178 + 108);  // twelve of these keys had failed before
  history.add(window(2, 480, "another router"), route_of("v2"));
  CHECK(history.failures().requests() == 120);
}

TEST_CASE("a stage's history is taken where it is of this incumbent and longer than what is remembered") {
  IncumbentHistory before;
  for (std::uint64_t number = 1; number <= 12; ++number)
    before.add(window(number, 120 * static_cast<std::int64_t>(number)), route_of("v1"));
  CHECK(before.failures().covered_s() > 1'400);
  IncumbentHistory after;
  after.add(window(1, 5'000, "after"), route_of("v1"));
  REQUIRE(after.adopt(before.text(), "v2"));
  CHECK(after.failures().requests() == 120);
  REQUIRE(after.adopt(before.text(), "v1"));
  CHECK(after.failures().to_json() == before.failures().to_json());
  // What is slow in the second half of each window is above the median there.
  CHECK(before.latencies().excess(schema::Metric::ttft_ms, 0.5).excess > 5);
  CHECK(after.latencies().to_json() == before.latencies().to_json());
  const auto kept = after.text();
  REQUIRE(after.adopt(IncumbentHistory{}.text(), "v1"));
  CHECK(after.text() == kept);
  const auto damaged = after.adopt("{", "v1");
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == schema::ErrorCode::corrupt);
  CHECK(after.text() == kept);
}
