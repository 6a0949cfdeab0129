#include "stages/guard/probe_watch.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

constexpr std::int64_t kYearUs = std::int64_t{365} * 86'400'000'000;
constexpr std::int64_t kEveryUs = 10'000'000;
constexpr double kNeeded = 5;  // a fifth of the guard's false alarms

/// An engine with its own log-probabilities for each prompt, noise in each answer, and a shift of all of
/// them.
struct Engine {
  Random random{1};
  double noise = 0, shift = 0, flips = 0;

  ProbeAnswer answer(std::size_t prompt) {
    ProbeAnswer out;
    for (std::size_t i = 0; i < 4; ++i) {
      const double own = -0.01 * static_cast<double>(1 + (7 * prompt + i) % 50);
      out.tokens.push_back("t" + std::to_string(prompt * 4 + i));
      out.logprobs.push_back(own + shift + noise * (2 * random.uniform() - 1));
    }
    if (random.uniform() < flips) out.tokens[2] = "other";
    return out;
  }
};

struct World {
  Engine engine;
  ProbeWatch watch{64, kYearUs, 5};
  std::int64_t now_us = 1'000'000'000;

  bool ask() { return watch.observe(engine.answer(watch.next()), now_us += kEveryUs); }
  void arm() {
    while (!watch.armed()) REQUIRE(ask());
  }
  /// Probes until the alarm, at most `most`.
  int until_alarm(int most) {
    for (int i = 0; i < most; ++i) {
      if (watch.value() >= kNeeded) return i;
      (void)ask();
    }
    return most;
  }
};

}  // namespace

TEST_CASE("the distance of two answers is that of their log-probabilities up to the first other token") {
  const ProbeAnswer before{{"a", "b", "c"}, {-1, -2, -3}};
  const auto same = probe_distance(before, before);
  REQUIRE(same.has_value());
  CHECK(same->logprob == 0);
  CHECK_FALSE(same->flipped);
  const auto shifted = probe_distance(before, {{"a", "b", "c"}, {-1.3, -2, -2.7}});
  REQUIRE(shifted.has_value());
  CHECK(shifted->logprob == doctest::Approx(0.2));
  const auto flipped = probe_distance(before, {{"a", "x", "c"}, {-1, -2.5, -9}});
  REQUIRE(flipped.has_value());
  CHECK(flipped->flipped);
  CHECK(flipped->logprob == doctest::Approx(0.25));  // what follows another token is another question
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(probe_distance(before, {{"a", "b", "c"}, {unknown, unknown, unknown}}).has_value());
  CHECK_FALSE(probe_distance(before, {}).has_value());
  const auto shorter = probe_distance(before, {{"a"}, {-1}});
  REQUIRE(shorter.has_value());
  CHECK(shorter->flipped);
}

TEST_CASE("the first round is the reference, three more the floor, each prompt in turn") {
  World world;
  std::size_t asked = 0;
  while (!world.watch.armed()) {
    CHECK(world.watch.next() == asked % 64);
    REQUIRE(world.ask());
    ++asked;
  }
  CHECK(asked == 64 * 4);
  CHECK(world.watch.value() == 0);
  std::set<std::size_t> later;
  for (int i = 0; i < 400; ++i) {
    later.insert(world.watch.next());
    REQUIRE(world.ask());
  }
  CHECK(later.size() > 50);  // in random order
  CHECK(world.watch.figures().compared == 400);
}

TEST_CASE("of an engine that repeats itself any change is found within ten probes") {
  for (const double shift : {1e-6, 1e-3, 0.5}) {
    CAPTURE(shift);
    World world;
    world.arm();
    CHECK(world.until_alarm(2'000) == 2'000);
    world.engine.shift = shift;
    CHECK(world.until_alarm(100) <= 10);
    CHECK(world.watch.figures().exceeding > 0);
  }
}

TEST_CASE("of an engine with noise of its own a shift beyond the noise is found, and the noise is none") {
  World world;
  world.engine.noise = 0.02;
  world.engine.flips = 0.02;
  world.arm();
  CHECK(world.until_alarm(5'000) == 5'000);
  const auto floor = world.watch.figures();
  CHECK(floor.floor_largest > 0.01);
  CHECK(floor.mean_distance == doctest::Approx(floor.floor_mean).epsilon(0.1));
  world.engine.shift = 0.06;
  CHECK(world.until_alarm(200) <= 60);
}

TEST_CASE("greedy tokens that turn over are found though each is as likely as before") {
  World world;
  world.engine.noise = 0.02;
  world.arm();
  world.engine.flips = 0.5;
  CHECK(world.until_alarm(400) <= 60);
  CHECK(world.watch.figures().flipped > 0);
}

TEST_CASE("a single answer can be held against the floor") {
  World world;
  world.engine.noise = 0.01;
  CHECK_FALSE(world.watch.is_within_floor(0, world.engine.answer(0)));
  world.arm();
  int within = 0;
  for (std::size_t prompt = 0; prompt < 64; ++prompt) {
    within += world.watch.is_within_floor(prompt, world.engine.answer(prompt)) ? 1 : 0;
    CHECK_FALSE(world.watch.is_within_floor(prompt, world.engine.answer((prompt + 1) % 64)));
  }
  CHECK(within >= 60);
  CHECK_FALSE(world.watch.is_within_floor(64, world.engine.answer(0)));
}

TEST_CASE("an answer without log-probabilities says nothing") {
  World world;
  const ProbeAnswer unknown{{"a"}, {std::numeric_limits<double>::quiet_NaN()}};
  CHECK_FALSE(world.watch.observe(unknown, 1));
  CHECK(world.watch.next() == 0);
  world.arm();
  CHECK_FALSE(world.watch.observe(unknown, world.now_us));
  CHECK(world.watch.figures().compared == 0);
}

TEST_CASE("a watch that was written and read goes on as if it had not been") {
  World steady, restarted;
  steady.engine.noise = restarted.engine.noise = 0.01;
  Random random(9);
  for (int i = 0; i < 1'200; ++i) {
    if (i == 900) steady.engine.shift = restarted.engine.shift = 0.02;
    (void)steady.ask();
    (void)restarted.ask();
    if (random.uniform() > 0.05) continue;
    auto read = ProbeWatch::from_json(nlohmann::json::parse(restarted.watch.to_json().dump()));
    REQUIRE(read.has_value());
    restarted.watch = std::move(*read);
  }
  CHECK(restarted.watch.value() == steady.watch.value());
  CHECK(restarted.watch.to_json() == steady.watch.to_json());
}

TEST_CASE("a damaged state is refused") {
  World world;
  world.arm();
  const nlohmann::json good = world.watch.to_json();
  REQUIRE(ProbeWatch::from_json(good).has_value());
  for (const char* member : {"reference", "floor", "asked", "mean_time_us", "seed"}) {
    CAPTURE(member);
    auto damaged = good;
    damaged.erase(member);
    const auto read = ProbeWatch::from_json(damaged);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == driftgate::schema::ErrorCode::corrupt);
    damaged[member] = nlohmann::json::array();
    CHECK_FALSE(ProbeWatch::from_json(damaged).has_value());
  }
}
