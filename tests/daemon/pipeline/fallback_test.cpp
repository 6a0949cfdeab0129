#include "daemon/pipeline/requests/fallback.hpp"

#include <doctest/doctest.h>

#include "daemon/pipeline/stages/traffic_rate.hpp"

using namespace driftgate;
using namespace driftgate::pipeline;

namespace {

route::Window window_of(std::int64_t start_s, std::int64_t end_s, std::size_t german, std::size_t other) {
  route::Window window;
  window.start_us = start_s * 1'000'000;
  window.end_us = end_s * 1'000'000;
  for (std::size_t i = 0; i < german + other; ++i) {
    route::Observation seen;
    seen.slice = i < german ? "domain=code;language=de" : "language=en";
    window.observations.push_back(seen);
  }
  return window;
}

}  // namespace

TEST_CASE("an engine has capacity when it is healthy and within its registered rate") {
  CHECK(judge_capacity({.engine = "safe"}).enough);
  CHECK(judge_capacity({.engine = "safe", .requests_per_second = 50, .max_requests_per_second = 50}).enough);
  CHECK_FALSE(
      judge_capacity({.engine = "safe", .requests_per_second = 50.5, .max_requests_per_second = 50}).enough);
  CHECK_FALSE(judge_capacity({}).enough);
  const schema::Error down{schema::ErrorCode::unavailable, "nobody listens", {}, nullptr};
  const auto unhealthy = judge_capacity({.engine = "safe", .unhealthy = down, .max_requests_per_second = 50});
  CHECK_FALSE(unhealthy.enough);
  CHECK(unhealthy.text.find("nobody listens") != std::string::npos);
}

TEST_CASE("without a registered rate the check says that only the health is known") {
  const auto capacity = judge_capacity({.engine = "safe", .requests_per_second = 1e6});
  CHECK(capacity.enough);
  CHECK(capacity.text.find("was not registered") != std::string::npos);
}

TEST_CASE("the rate of a model is that of its last windows, in all and of the slices that match") {
  TrafficRate rate;
  CHECK(rate.requests_per_second() == 0);
  rate.add(window_of(0, 5, 10, 40));
  rate.add(window_of(5, 10, 10, 40));
  CHECK(rate.requests_per_second() == 10);
  CHECK(rate.requests_per_second({{"language", "de"}}) == 2);
  CHECK(rate.requests_per_second({{"domain", "code"}, {"language", "de"}}) == 2);
  CHECK(rate.requests_per_second({{"language", "fr"}}) == 0);
}

TEST_CASE("windows of long ago no longer count") {
  TrafficRate rate;
  rate.add(window_of(0, 5, 0, 5'000));
  for (std::int64_t i = 1; i <= static_cast<std::int64_t>(TrafficRate::kWindows); ++i)
    rate.add(window_of(5 * i, 5 * i + 5, 0, 5));
  CHECK(rate.requests_per_second() == 1);
}

TEST_CASE("requests of slices beyond the limit count for every slice") {
  TrafficRate rate;
  route::Window window;
  window.end_us = 1'000'000;
  for (std::size_t i = 0; i < TrafficRate::kMaxSlices + 10; ++i) {
    route::Observation seen;
    seen.slice = "customer=c" + std::to_string(i);
    window.observations.push_back(seen);
  }
  rate.add(window);
  CHECK(rate.requests_per_second({{"customer", "c0"}}) == 11);
}
