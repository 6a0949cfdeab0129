#include "stages/planning/regressions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/contract/contract.hpp"
#include "stages/planning/planning_text.hpp"
#include "stages/statistics/distributions.hpp"
#include "tests/stages/canary_world.hpp"
#include "tests/stages/planning_contract.hpp"

namespace driftgate::stages {
namespace {

constexpr const char* kRamp = "steps: [{share: 0.1}, {share: 0.5}, {share: 1.0}], min_keys: 500";

std::vector<SmallestRegression> of(const schema::Contract& contract, double requests_per_second = 0) {
  return smallest_regressions(contract, power_at_half(contract, 1), 1, schema::Runs(), requests_per_second);
}

std::vector<SmallestRegression> of(const std::string& clauses, double requests_per_second = 0) {
  return of(planning_contract(clauses, kRamp), requests_per_second);
}

double figure_of(const FoundRegression& found) {
  REQUIRE(found.figure.has_value());
  return *found.figure;
}

TEST_CASE("more data finds a smaller regression, which is beyond the limit") {
  struct Case {
    const char* clauses;
    double limit;
  };
  for (const auto& [clauses, limit] :
       {Case{"numerical: [{id: a, metric: tv, aggregate: sequence_mean, max: 0.05}]", 0.05},
        Case{"numerical: [{id: a, metric: tv, aggregate: p90, max: 0.1}]", 0.1},
        Case{"numerical: [{id: a, metric: tv, aggregate: p90, over: sequences, max: 0.1}]", 0.1},
        Case{"statistical: [{id: a, outcome: correct, non_inferiority_margin: 0.05}]", 0.05},
        Case{"runtime: [{id: a, metric: error_rate, max: 0.1, stages: [shadow-runtime]}]", 0.1},
        Case{"runtime: [{id: a, metric: error_rate, max_delta: 0.05, stages: [shadow-runtime]}]", 0.05},
        Case{"runtime: [{id: a, metric: ttft_ms, aggregate: p50, max: 90, stages: [shadow-runtime]}]", 90},
        Case{"runtime: [{id: a, metric: divergence_rate, max: 0.1, stages: [shadow-runtime]}]", 0.1}}) {
    CAPTURE(clauses);
    const auto all = of(clauses);
    REQUIRE(all.size() == 1);
    const SmallestRegression& one = all[0];
    REQUIRE(one.found.size() == 2);
    CHECK(one.found[1].exposure == 4 * one.found[0].exposure);
    CHECK(figure_of(one.found[1]) < figure_of(one.found[0]));
    CHECK(figure_of(one.found[1]) > limit);
    CHECK(figure_of(one.found[0]) < 6 * limit);
  }
}

TEST_CASE("a share of mirrored requests is found as often as the exact binomial says") {
  const auto all = of("runtime: [{id: a, metric: error_rate, max: 0.1, stages: [shadow-runtime]}]");
  REQUIRE(all.size() == 1);
  for (const FoundRegression& found : all[0].found) {
    std::uint64_t least = 0;
    while (clopper_pearson_lower(least, found.exposure, all[0].alpha) <= 0.1) ++least;
    // 32 of 40 simulated runs: between 0.6 and 0.95 where the truth is 0.8, and a step below it is less.
    CHECK(binomial_at_least(least, found.exposure, figure_of(found)) > 0.6);
    CHECK(binomial_at_least(least, found.exposure, figure_of(found) / 1.1) < 0.95);
  }
}

TEST_CASE("what a canary is said to find is what a canary finds") {
  const auto contract = planning_contract(
      "runtime: [{id: errors, metric: error_rate, max_ratio: 1, require: no_harm, stages: [canary]}]", kRamp);
  const auto all = of(contract);
  REQUIRE(all.size() == 1);
  CHECK(all[0].limit == "max_ratio");
  CHECK(all[0].in == RegressionUnit::times);
  REQUIRE(all[0].found.size() == 3);
  CHECK(all[0].found[0].exposure == 500);
  const double times = figure_of(all[0].found[0]);
  const auto found_of_20 = [&](double candidate_fails) {
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CanaryWorld world(contract, seed, history_of(1'800));
      world.incumbent_fails = 0.01;
      bool over = false;
      while (!over && world.last.exposed_keys < 500)
        over = world.second(candidate_fails).action == CanaryAction::rollback;
      found += over ? 1 : 0;
    }
    return found;
  };
  CHECK(found_of_20(0.01 * times) >= 11);      // 16 are expected; so few have a chance of 1%
  CHECK(found_of_20(0.01 * times / 2) <= 11);  // half of the excess, and less of the power
}

TEST_CASE("a slice is found later than all traffic, and a larger one before a smaller one") {
  const auto all =
      of("runtime: [{id: errors, metric: error_rate, max: 0.05, slices: [monitored], stages: [canary]}]");
  REQUIRE(all.size() == 3);
  CHECK(all[0].slice_share == 1);
  CHECK(all[1].slice_share == 0.2);
  CHECK(all[2].slice_share == 0.05);
  CHECK(all[2].found[0].exposure == 25);
  const double whole = figure_of(all[0].found[2]);
  const double fifth = figure_of(all[1].found[2]);
  CHECK(whole > 0.05);
  CHECK(whole < fifth);
  CHECK(fifth < figure_of(all[2].found[2]));
  // A clause that names critical slices is tested on these alone.
  const auto critical =
      of("runtime: [{id: errors, metric: error_rate, max: 0.05, slices: [critical], stages: [canary]}]");
  CHECK(std::ranges::none_of(critical, [](const auto& one) { return one.slice_share == 1; }));
}

TEST_CASE("a faster service exposes more in a step, and so finds smaller regressions in it") {
  const std::string clause =
      "runtime: [{id: slow, metric: ttft_ms, aggregate: p95, max_ratio: 1.1, stages: [canary]}]";
  const auto slow = of(clause);
  const auto fast = of(clause, 1'000);  // 10% of 1,000 a second for a minute's soak
  REQUIRE(slow.size() == 1);
  REQUIRE(fast.size() == 1);
  CHECK(fast[0].found[0].exposure == 6'000);
  CHECK(figure_of(fast[0].found[0]) > 1.1);
  CHECK((!slow[0].found[0].figure || *slow[0].found[0].figure > figure_of(fast[0].found[0])));
}

TEST_CASE("two limits of a clause are told apart, and what cannot be known says so") {
  const auto both =
      of("runtime: [{id: errors, metric: error_rate, max: 0.05, max_ratio: 2, stages: [canary]}]");
  REQUIRE(both.size() == 2);
  CHECK(both[0].limit == "max");
  CHECK(both[1].limit == "max_ratio");
  const auto delta =
      of("runtime: [{id: slow, metric: ttft_ms, aggregate: p95, max_delta: 20, stages: [shadow-runtime, "
         "canary]}]");
  REQUIRE(delta.size() == 2);
  for (const SmallestRegression& one : delta)
    CHECK(one.why_not.find("how long the incumbent takes") != std::string::npos);
  const auto census = of("numerical: [{id: a, metric: tv, aggregate: max, max: 0.5, min_count: 50}]");
  REQUIRE(census.size() == 1);
  CHECK(census[0].always == "a single row beyond the limit");
}

TEST_CASE("people and programs read the same figures") {
  const auto all = of("runtime: [{id: errors, metric: error_rate, max_ratio: 1, stages: [canary]}]");
  const auto json = nlohmann::json::parse(regressions_json(all));
  REQUIRE(json.size() == all.size());
  CHECK(json[0]["found"][0]["exposure"] == 500);
  CHECK(json[0]["in"] == "times");
  const std::string text = regressions_text(all);
  CHECK(text.find("runtime.errors in canary (max_ratio): failure rate ") != std::string::npos);
  CHECK(text.find("× the incumbent's with 500 sticky keys") != std::string::npos);
  CHECK(regressions_text({}).empty());
}

}  // namespace
}  // namespace driftgate::stages
