#include "stages/dependence/failure_history.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

constexpr std::int64_t kStart = 1'700'000'000'000'000;

struct Traffic {
  double per_second = 20, rate = 0.01;
  double stall_from_s = -1, stall_s = 4;  ///< all fails within
  bool keyless = false;
};

void serve(FailureHistory& history, Random& random, const Traffic& traffic, double from_s, double to_s) {
  for (double now = from_s; now < to_s; now += -std::log1p(-random.uniform()) / traffic.per_second) {
    const bool stalled = now >= traffic.stall_from_s && now < traffic.stall_from_s + traffic.stall_s;
    const bool failed = random.uniform() < traffic.rate || (stalled && traffic.stall_from_s >= 0);
    history.observe(random.next(), traffic.keyless, failed, kStart + static_cast<std::int64_t>(1e6 * now));
  }
}

}  // namespace

TEST_CASE("failures that come one by one are rarely taken for bursts, at one rate and where it rises") {
  int dependent = 0;
  for (std::uint64_t run = 0; run < 60; ++run) {
    Random random(run);
    FailureHistory history;
    for (int hour = 0; hour < 3; ++hour)
      serve(history, random, {.rate = hour == 1 ? 0.02 : 0.01}, 3'600.0 * hour, 3'600.0 * (hour + 1));
    dependent += history.dependent() ? 1 : 0;
    CHECK(history.longest_stall_s() < 2);
    CHECK(history.covered_s() == doctest::Approx(10'800).epsilon(0.01));
  }
  CAPTURE(dependent);
  CHECK(dependent <= 4);
}

TEST_CASE("one stall shows that failures come together, and how long it was") {
  for (std::uint64_t run = 0; run < 20; ++run) {
    Random random(run);
    FailureHistory history;
    const Traffic traffic{.stall_from_s = 900, .keyless = run % 2 == 0};
    serve(history, random, traffic, 0, 900);
    REQUIRE_FALSE(history.dependent());
    serve(history, random, traffic, 900, 902);  // it shows while it lasts
    CHECK(history.dependent());
    serve(history, random, traffic, 902, 1'000);
    CHECK(history.longest_stall_s() > 3);
    CHECK(history.longest_stall_s() < 6);
  }
}

TEST_CASE("a small arm's stall of six requests shows as well") {
  FailureHistory history;
  for (int i = 0; i < 400; ++i)
    history.observe(static_cast<std::uint64_t>(i), false, false, kStart + 500'000LL * i);
  for (int i = 0; i < 6; ++i)
    history.observe(static_cast<std::uint64_t>(1'000 + i), false, true, kStart + 200'000'000 + 300'000LL * i);
  CHECK(history.dependent());
}

TEST_CASE("one user whose requests all fail is one failure and no stall") {
  Random random(3);
  FailureHistory history;
  for (int i = 0; i < 2'000; ++i) {
    history.observe(7, false, true, kStart + 100'000LL * i);
    if (i % 4 == 0) history.observe(random.next(), false, false, kStart + 100'000LL * i + 50'000);
  }
  CHECK(history.failures() == 1);
  CHECK_FALSE(history.dependent());
  CHECK(history.longest_stall_s() == 0);
}

TEST_CASE("a history is resumed where it was, within a stall too") {
  for (const double cut : {500.0, 901.3, 950.0}) {
    CAPTURE(cut);
    const Traffic traffic{.stall_from_s = 900};
    FailureHistory steady, resumed;
    Random one(4), other(4);
    serve(steady, one, traffic, 0, cut);
    serve(resumed, other, traffic, 0, cut);
    resumed = FailureHistory::from_json(nlohmann::json::parse(resumed.to_json().dump()));
    serve(steady, one, traffic, cut, 1'000);
    serve(resumed, other, traffic, cut, 1'000);
    CHECK(resumed.to_json() == steady.to_json());
    CHECK(resumed.dispersion() == steady.dispersion());
    CHECK(resumed.longest_stall_s() == steady.longest_stall_s());
  }
}

TEST_CASE("a gap in the traffic counts a minute at most, and two days later a stall is forgotten") {
  FailureHistory history;
  Random random(5);
  serve(history, random, {.stall_from_s = 10}, 0, 60);
  const double before = history.covered_s();
  history.observe(1, false, false, kStart + 7'200'000'000);
  CHECK(history.covered_s() == doctest::Approx(before + 60).epsilon(1e-3));
  REQUIRE(history.dependent());
  double now = 7'200;
  for (int minute = 0; minute < 2 * 24 * 60 + 2; ++minute) {
    now += 60;
    history.observe(random.next(), false, false, kStart + static_cast<std::int64_t>(1e6 * now));
  }
  CHECK_FALSE(history.dependent());
  CHECK(history.longest_stall_s() == 0);
}
