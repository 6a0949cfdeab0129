#include "stages/dependence/wander.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "stages/dependence/count_scores.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

constexpr std::int64_t kStartUs = 1'000'000'000'000;
constexpr std::int64_t kBlockUs = 12'000'000;

/// Requests of one arm, `per_s` in each second, of which 2% fail.
struct World {
  double swing = 0;          ///< the standard deviation of the logarithm of the rate
  double memory_s = 300;     ///< in which it forgets
  double stall_every_s = 0;  ///< 0: no stalls. In one, all requests of 20 s fail
  double traffic_cycle = 0;  ///< by which part the number of requests goes up and down in an hour
  double share = 1;          ///< of the arm
  double per_s = 20;
};

struct Seen {
  Wander wander;
  CountScores scores;
};

Seen seen(const World& world, int seconds, std::uint64_t seed) {
  Random random(mix64(seed));
  Seen record;
  const auto normal = [&] { return normal_quantile(std::max(random.uniform(), 1e-12)); };
  double z = normal();
  const double kept = std::exp(-1 / world.memory_s);
  for (int second = 0; second < seconds; ++second) {
    z = kept * z + std::sqrt(1 - kept * kept) * normal();
    const bool stalls = world.stall_every_s > 0 && std::fmod(second, world.stall_every_s) < 20;
    const double p = stalls ? 1 : 0.02 * std::exp(world.swing * z - world.swing * world.swing / 2);
    const double cycle = 1 + world.traffic_cycle * std::sin(2 * std::numbers::pi * second / 3'600);
    const auto requests = static_cast<int>(world.per_s * cycle * world.share);
    for (int i = 0; i < requests; ++i) {
      const std::int64_t at = kStartUs + 1'000'000LL * second + 1'000'000LL * i / requests;
      const bool failed = random.uniform() < p;
      record.wander.observe(at, failed ? 1 : 0, world.share);
      record.scores.observe(at, failed);
    }
  }
  return record;
}

/// Of 40 arms, those that a canary does not begin to count single failures of.
int wandering(const World& world) {
  int shown = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    shown += seen(world, 3'600, seed).wander.excess().deviations > 3 ? 1 : 0;
  return shown;
}

}  // namespace

TEST_CASE("independent failures do not wander, however the traffic does") {
  CHECK(wandering({}) <= 2);
  CHECK(wandering({.traffic_cycle = 0.8}) <= 2);
  CHECK(wandering({.share = 0.5}) <= 2);
}

TEST_CASE("a rate that wanders for minutes shows") {
  CHECK(wandering({.swing = 0.5}) >= 38);
  CHECK(wandering({.swing = 0.5, .memory_s = 60}) >= 38);
  // Half of the traffic shows half of the excess, and says what all of it has.
  const double all = seen({.swing = 0.7}, 20'000, 1).wander.excess().excess;
  const double half = seen({.swing = 0.7, .share = 0.5}, 20'000, 1).wander.excess().excess;
  CHECK(half == doctest::Approx(all).epsilon(0.35));
}

TEST_CASE("scores see a rate that wanders and not how long a stall is") {
  CHECK(seen({.swing = 0.7}, 14'400, 2).scores.inflation(kBlockUs) > 1);
  const Seen stalls = seen({.stall_every_s = 600}, 14'400, 3);
  CHECK(stalls.wander.excess().excess > 50);
  CHECK(stalls.scores.inflation(3 * 20'000'000) == 0);
  CHECK(seen({}, 14'400, 4).scores.inflation(kBlockUs) == 0);
}

TEST_CASE("what is too short or too small to say anything says nothing") {
  Wander wander;
  CHECK(wander.excess().excess == 0);
  CHECK(wander.covered_s() == 0);
  CHECK(CountScores().inflation(kBlockUs) == 0);
  for (int i = 0; i < 100; ++i) wander.observe(kStartUs + 1'000'000LL * i, 0, 1);
  CHECK(wander.excess().deviations == 0);
  CHECK(wander.covered_s() == 96);
  // Of a pause, a minute counts. An arm of too small a share does not stand for the rest.
  wander.observe(kStartUs + 90'000'000'000, 0, 1);
  CHECK(wander.covered_s() == 156);
  wander.observe(kStartUs + 90'008'000'000, 1, 0.01);
  CHECK(wander.excess().excess == 0);
}

TEST_CASE("the day before counts, and the one before that does not") {
  auto [wander, scores] = seen({.swing = 0.7}, 14'400, 5);
  const double excess = wander.excess().excess, inflation = scores.inflation(kBlockUs);
  CHECK(inflation > 0);
  wander.begin_day();
  scores.begin_day();
  CHECK(wander.excess().excess == excess);
  CHECK(scores.inflation(kBlockUs) == inflation);
  wander.begin_day();
  scores.begin_day();
  CHECK(wander.excess().excess == 0);
  CHECK(scores.inflation(kBlockUs) == 0);
}

TEST_CASE("the record goes on from what was written of it") {
  Wander steady, resumed;
  CountScores counted, resumed_count;
  Random random(6);
  for (int i = 0; i < 2'000; ++i) {
    const std::int64_t at = kStartUs + 300'000LL * i;
    const bool failed = random.uniform() < 0.1;
    steady.observe(at, failed ? 1 : 0, 0.5);
    resumed.observe(at, failed ? 1 : 0, 0.5);
    counted.observe(at, failed);
    resumed_count.observe(at, failed);
    if (i % 7 != 0) continue;
    resumed = Wander::from_json(nlohmann::json::parse(resumed.to_json().dump()));
    resumed_count = CountScores::from_json(nlohmann::json::parse(resumed_count.to_json().dump()));
  }
  CHECK(resumed.to_json() == steady.to_json());
  CHECK(resumed_count.to_json() == counted.to_json());
  CHECK(resumed.excess().excess == steady.excess().excess);
}
