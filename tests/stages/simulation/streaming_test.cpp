#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/split_guard.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;

// Looked at after every observation. Monte-Carlo limits: three standard errors over the level.

namespace {

double monte_carlo_limit(double alpha, int runs) {
  return alpha + 3 * std::sqrt(alpha * (1 - alpha) / runs);
}

struct Ramp {
  bool rolled_back = false;
  std::uint64_t exposed = 0;
};

/// 100,000 requests of distinct keys over 1, 5, 25 and 50%, base rate 1%, alpha 0.05.
Ramp ramp(double ratio, double alpha, Random& random) {
  constexpr double kShares[] = {0.01, 0.05, 0.25, 0.50};
  Ramp result;
  LabelProcess process(1.0);
  for (int request = 0; request < 100'000; ++request) {
    const double share = kShares[request / 25'000];
    const bool candidate = random.uniform() < share;
    result.exposed += candidate ? 1U : 0U;
    if (random.uniform() >= 0.01 * (candidate ? ratio : 1)) continue;
    process.update(candidate, share);
    if (process.e_value() >= 1 / alpha) {
      result.rolled_back = true;
      return result;
    }
  }
  return result;
}

std::uint64_t median_exposure(double ratio, double alpha, int runs, int& stopped) {
  Random random(200 + static_cast<std::uint64_t>(ratio));
  std::vector<std::uint64_t> exposed;
  stopped = 0;
  for (int run = 0; run < runs; ++run) {
    const Ramp result = ramp(ratio, alpha, random);
    stopped += result.rolled_back ? 1 : 0;
    exposed.push_back(result.exposed);
  }
  std::ranges::nth_element(exposed, exposed.begin() + runs / 2);
  return exposed[static_cast<std::size_t>(runs) / 2];
}

}  // namespace

TEST_CASE("the label process seldom stops a ramp without harm and always one with twice the failures") {
  constexpr int kRuns = 400;
  int stopped = 0;
  median_exposure(1, 0.05, kRuns, stopped);
  MESSAGE("false rollbacks at ratio 1: " << stopped << " of 400");
  CHECK(stopped <= monte_carlo_limit(0.05, kRuns) * kRuns);
  const auto twice = median_exposure(2, 0.05, 200, stopped);
  MESSAGE("ratio 2: stopped " << stopped << " of 200, median exposed " << twice << " (reference about 935)");
  CHECK(stopped == 200);
  CHECK(twice > 600);
  CHECK(twice < 1'300);
  const auto five = median_exposure(5, 0.05, 200, stopped);
  MESSAGE("ratio 5: stopped " << stopped << " of 200, median exposed " << five << " (reference about 77)");
  CHECK(stopped == 200);
  CHECK(five < 130);
}

TEST_CASE("the absolute process keeps its level in both directions at the boundary") {
  constexpr int kRuns = 1'500;
  for (const double max : {0.01, 0.05}) {
    CAPTURE(max);
    Random random(300);
    int proof = 0;
    int harm = 0;
    for (int run = 0; run < kRuns; ++run) {
      FailureRateProcess process(max);
      double best_proof = 0;
      double best_harm = 0;
      for (int key = 0; key < 1'500; ++key) {
        process.update(random.uniform() < max);
        best_proof = std::max(best_proof, process.e_proof());
        best_harm = std::max(best_harm, process.e_harm());
      }
      proof += best_proof >= 20 ? 1 : 0;
      harm += best_harm >= 20 ? 1 : 0;
    }
    MESSAGE("max " << max << ": false advances " << proof << ", false alarms " << harm << " of 1,500");
    CHECK(proof <= monte_carlo_limit(0.05, kRuns) * kRuns);
    CHECK(harm <= monte_carlo_limit(0.05, kRuns) * kRuns);
  }
}

TEST_CASE("a process that starts with a step sees a change that one full of good data misses for long") {
  const auto keys_until = [](int good, double rate, std::uint64_t seed) {
    Random random(seed);
    FailureRateProcess process(0.05);
    for (int key = 0; key < good; ++key) process.update(false);
    int keys = 0;
    while (process.e_harm() < 100 && keys < 100'000) {
      process.update(random.uniform() < rate);
      ++keys;
    }
    return keys;
  };
  std::vector<int> fresh;
  std::vector<int> aged;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    fresh.push_back(keys_until(0, 0.15, seed));
    aged.push_back(keys_until(10'000, 0.15, seed));
  }
  std::ranges::sort(fresh);
  std::ranges::sort(aged);
  MESSAGE("median keys at 15% against 5%: fresh " << fresh[20] << ", after 10,000 good ones " << aged[20]);
  CHECK(fresh[20] < 200);
  CHECK(aged[20] > 10 * fresh[20]);
}

TEST_CASE("the split guard keeps its level through weight changes") {
  constexpr int kRuns = 1'000;
  Random random(400);
  int alarms = 0;
  for (int run = 0; run < kRuns; ++run) {
    SplitGuard guard;
    bool alarm = false;
    for (int key = 0; key < 2'000; ++key) {
      const std::uint32_t share = key < 700 ? 1'000 : (key < 1'400 ? 5'000 : 9'900);
      guard.update(random.uniform() < share / 10'000.0, share);
      if (key % 10 == 0) alarm = alarm || guard.e_value() >= 20;
    }
    alarms += alarm ? 1 : 0;
  }
  MESSAGE("false alarms: " << alarms << " of 1,000");
  CHECK(alarms <= monte_carlo_limit(0.05, kRuns) * kRuns);
}

TEST_CASE("the confidence sequence of a p95 covers at every look") {
  constexpr int kRuns = 400;
  Random random(500);
  int wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    QuantileSequence sequence;
    bool missed = false;
    for (int n = 1; n <= 2'000; ++n) {
      sequence.add(10 - 20 * std::log(1 - random.uniform()));
      if (n % 20 != 0) continue;
      const QuantileLimits limits = sequence.limits(0.95, 0.05);
      const double truth = 10 - 20 * std::log(0.05);
      missed = missed || limits.lower > truth || limits.upper < truth;
    }
    wrong += missed ? 1 : 0;
  }
  MESSAGE("sequences that ever missed: " << wrong << " of 400");
  CHECK(wrong <= monte_carlo_limit(0.05, kRuns) * kRuns);
}

TEST_CASE("the demo's canary lets the healthy pass and stops the failing") {
  const auto contract = make::canary_contract();
  for (const double rate : {0.0, 0.001, 0.01}) {
    std::vector<std::uint64_t> keys;
    int harmed = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CanaryWorld world(contract, seed);
      for (int second = 0; second < 300 && world.step == 0; ++second) {
        const CanaryDecision decision = world.second(rate);
        harmed += decision.action == CanaryAction::rollback ? 1 : 0;
        if (decision.action == CanaryAction::advance) keys.push_back(decision.exposed_keys);
        world.follow(decision);
      }
    }
    std::ranges::sort(keys);
    REQUIRE(keys.size() > 35);
    MESSAGE("rate " << rate << ": advanced " << keys.size() << " of 40, median keys " << keys[keys.size() / 2]
                    << ", 90% within " << keys[keys.size() * 9 / 10]);
    CHECK(harmed == 0);
  }
  for (const double rate : {0.10, 0.20, 0.5}) {
    std::vector<std::uint64_t> exposed;
    int advanced = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CanaryWorld world(contract, seed);
      for (int second = 0; second < 600; ++second) {
        const CanaryDecision decision = world.second(rate);
        if (decision.action == CanaryAction::rollback) {
          exposed.push_back(decision.exposed_requests);
          break;
        }
        advanced += decision.action == CanaryAction::advance ? 1 : 0;
      }
    }
    std::ranges::sort(exposed);
    MESSAGE("rate " << rate << ": stopped " << exposed.size() << " of 40, median exposed "
                    << exposed[exposed.size() / 2] << ", advanced " << advanced);
    CHECK(exposed.size() == 40);
    CHECK(advanced == 0);
  }
}
