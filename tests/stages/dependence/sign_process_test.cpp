#include "stages/dependence/sign_process.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

std::uint64_t draw(Random& random, std::uint64_t n, double p) {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < n; ++i) count += random.uniform() < p ? 1 : 0;
  return count;
}

struct Arms {
  double share = 0.25;  ///< of the candidate
  double ratio = 1;     ///< the candidate's rate as a multiple of the incumbent's 1%
  double stalled = 0;   ///< chance that all requests of an arm fail in a block, each arm for itself
  std::uint64_t blocks = 250;
};

/// Of 200 runs, those whose e-value ever reached 200.
int found(const Arms& arms, std::uint64_t seed) {
  int runs = 0;
  for (std::uint64_t run = 0; run < 200; ++run) {
    Random random(mix64(seed + run));
    SignProcess process(0);
    bool reached = false;
    for (std::uint64_t i = 0; i < arms.blocks && !reached; ++i) {
      BlockCounts block;
      block.candidate = draw(random, 240, arms.share);
      block.incumbent = 240 - block.candidate;
      block.failed_candidate =
          draw(random, block.candidate, random.uniform() < arms.stalled ? 1 : 0.01 * arms.ratio);
      block.failed_incumbent = draw(random, block.incumbent, random.uniform() < arms.stalled ? 1 : 0.01);
      process.add(block);
      reached = process.e_value() >= 200;
    }
    runs += reached ? 1 : 0;
  }
  return runs;
}

}  // namespace

TEST_CASE("a block counts by the probability that the candidate has more failures than a thinned incumbent") {
  SignProcess process(0);
  // Each of the incumbent's 2 failures is kept with 1/4: none with 9/16, one with 6/16, two with 1/16.
  process.add({50, 200, 1, 2});
  CHECK(process.up() == doctest::Approx(9.0 / 16));
  CHECK(process.down() == doctest::Approx(1.0 / 16));
  // The candidate is the larger arm: its 3 failures are kept with 1/2.
  process.add({100, 50, 3, 1});
  CHECK(process.up() == doctest::Approx(9.0 / 16 + 4.0 / 8));
  CHECK(process.down() == doctest::Approx(1.0 / 16 + 1.0 / 8));
  process.add({0, 200, 0, 200});
  process.add({10, 0, 10, 0});
  CHECK(process.up() + process.down() == doctest::Approx(20.0 / 16));
}

TEST_CASE("the e-value is the mean likelihood ratio over probabilities above one half") {
  SignProcess process(0);
  for (std::uint64_t i = 0; i < 99; ++i) process.add({100, 100, i % 4 == 0 ? 0U : 1U, i % 4 == 0 ? 1U : 0U});
  CHECK(process.e_value() == 1);
  for (std::uint64_t i = 99; i < 120; ++i)
    process.add({100, 100, i % 4 == 0 ? 0U : 1U, i % 4 == 0 ? 1U : 0U});
  CHECK(process.up() == 90);  // a failure of the thinned arm of equal size is always kept
  CHECK(process.down() == 30);
  CHECK(process.own_inflation() == 0);
  double mean = 0;
  constexpr int kSteps = 100'000;
  for (int i = 0; i < kSteps; ++i) {
    const double p = 0.5 + 0.5 * (i + 0.5) / kSteps;
    mean += std::exp2(120) * std::pow(p, 90) * std::pow(1 - p, 30) / kSteps;
  }
  CHECK(process.e_value() == doctest::Approx(mean).epsilon(1e-6));
}

TEST_CASE("equal arms are called worse no more often than the level says, with stalls or without") {
  CHECK(found({}, 1) <= 4);
  CHECK(found({.share = 0.05}, 2) <= 4);
  CHECK(found({.share = 0.75}, 3) <= 4);
  CHECK(found({.stalled = 0.02}, 4) <= 4);
}

TEST_CASE("harm is found among stalls") {
  CHECK(found({.ratio = 3}, 5) >= 190);
  CHECK(found({.ratio = 3, .stalled = 0.02}, 6) >= 180);
}

TEST_CASE("signs that depend on each other carry less") {
  SignProcess waves(0), mixed(0);
  for (int i = 0; i < 256; ++i) {
    const bool up = i / 32 % 2 == 0;
    waves.add({100, 100, up ? 1U : 0U, up ? 0U : 1U});
    mixed.add({100, 100, i % 2 == 0 ? 1U : 0U, i % 2 == 0 ? 0U : 1U});
  }
  CHECK(waves.own_inflation() > 10);
  CHECK(mixed.own_inflation() == 0);
  SignProcess alone(0), even(2), small(2);
  for (int i = 0; i < 300; ++i) {
    const bool up = i % 3 != 0;
    for (SignProcess* process : {&alone, &even}) process->add({100, 100, up ? 1U : 0U, up ? 0U : 1U});
    small.add({100, 9'900, up ? 1U : 0U, up ? 0U : 100U});
  }
  // With arms of equal size each block counts 1/(1 + 2/2).
  CHECK(even.up() == alone.up());
  CHECK(std::log2(even.e_value()) == doctest::Approx(std::log2(alone.e_value()) / 2).epsilon(0.1));
  // A small arm hardly swings.
  SignProcess small_alone(0);
  for (int i = 0; i < 300; ++i) small_alone.add({100, 9'900, i % 3 != 0 ? 1U : 0U, i % 3 != 0 ? 0U : 100U});
  CHECK(std::log2(small.e_value()) > 0.97 * std::log2(small_alone.e_value()));
}

TEST_CASE("signs go on from what was written of them") {
  SignProcess steady(3), resumed(3);
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    const BlockCounts block{20, 80, draw(random, 20, 0.1), draw(random, 80, 0.05)};
    steady.add(block);
    resumed.add(block);
    resumed = SignProcess::from_json(nlohmann::json::parse(resumed.to_json().dump()), 3);
    CHECK(resumed.e_value() == steady.e_value());
  }
}
