#include <doctest/doctest.h>

#include <cmath>

#include "schema/verdict_rule.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/floor.hpp"
#include "stages/offline_numeric.hpp"
#include "tests/stages/make.hpp"

namespace driftgate::stages {
namespace {

using schema::Aggregate;
using schema::Metric;
using schema::Verdict;

schema::Limits with_floor(double max, double multiple, double cap) {
  schema::Limits limits = make::max(max);
  limits.floor_multiple = multiple;
  limits.floor_cap = cap;
  return limits;
}

/// 1,500 sequences whose tv is spread evenly over mean·[0.9, 1.1].
gpu::MeasurementTable spread(double mean, std::vector<gpu::Threshold> thresholds = {}) {
  gpu::MeasurementTable table = make::table(std::move(thresholds));
  for (std::uint32_t i = 0; i < 1'500; ++i) {
    const double step = static_cast<double>(i % 101) / 100;
    make::append(table,
                 {.tv = mean * (0.9 + 0.2 * step), .slices = {{"language", i % 3 == 0 ? "de" : "en"}}});
  }
  return table;
}

schema::ClauseVerdict decide(const gpu::MeasurementTable& table, const Floors& floors,
                             const schema::Clause& clause, const schema::SliceWhere& where = {}) {
  schema::Contract contract = make::contract();
  contract.confidence.means = schema::Means::approximate;
  const ClauseData data{&contract, &table, 0.05, 1, floors};
  auto verdict = decide_clause(data, clause, where, schema::SliceRole::corpus);
  const auto again = schema::rederive(verdict);
  REQUIRE(again);
  CHECK(*again == verdict.verdict);
  return verdict;
}

const schema::Clause kMean =
    make::numeric("tv", Metric::tv, Aggregate::sequence_mean, with_floor(0.005, 4, 0.03));

TEST_CASE("a clause with a floor multiple and no floor is an error that says which capture to make") {
  const auto verdict = decide(spread(0.001), {}, kMean);
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("no noise floor was measured") != std::string::npos);
  CHECK(verdict.message.find("another batch size") != std::string::npos);
}

TEST_CASE("a floor raises the limit to its multiple of the lower confidence limit") {
  const auto table = spread(0.012), floor = spread(0.004);
  CHECK(decide(table, {}, make::numeric("tv", Metric::tv, Aggregate::sequence_mean, make::max(0.005)))
            .verdict == Verdict::violated);
  const auto verdict = decide(table, {.inf = {&floor, "sha256:f"}}, kMean);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.alpha == 0.025);
  CHECK(verdict.details.at("floor_alpha") == 0.025);
  CHECK(verdict.details.at("stated_max") == 0.005);
  CHECK(verdict.details.at("floor_inf") == doctest::Approx(0.004).epsilon(0.01));
  const double lower = verdict.details.at("floor_inf_lower");
  CHECK(lower < verdict.details.at("floor_inf"));
  CHECK(verdict.threshold == 4 * lower);
  CHECK(verdict.tables == std::map<std::string, std::string>{{"floor_inf", "sha256:f"}});
  CHECK(verdict.message.find("noise floor of K_inf") != std::string::npos);
  CHECK(verdict.message.find("raises the stated max of 0.005") != std::string::npos);
}

TEST_CASE("no floor lifts a limit over its cap, and a small one leaves the stated limit") {
  const auto table = spread(0.012), large = spread(0.5), small = spread(1e-6);
  const auto capped = decide(table, {.train = {&large, ""}}, kMean);
  CHECK(capped.threshold == 0.03);
  CHECK(capped.message.find("its cap") != std::string::npos);
  const auto stated = decide(table, {.train = {&small, ""}}, kMean);
  CHECK(stated.threshold == 0.005);
  CHECK(stated.verdict == Verdict::violated);
  CHECK(stated.message.find("the stated max, which stands") != std::string::npos);
}

TEST_CASE("the larger of two floors counts and each has a quarter of the level") {
  const auto table = spread(0.012), small = spread(1e-6), large = spread(0.004);
  const auto verdict = decide(table, {.train = {&small, "sha256:t"}, .inf = {&large, "sha256:i"}}, kMean);
  CHECK(verdict.details.at("floor_alpha") == 0.0125);
  CHECK(verdict.alpha == 0.025);
  CHECK(verdict.threshold == 4 * verdict.details.at("floor_inf_lower"));
  CHECK(verdict.details.at("floor_train") == doctest::Approx(1e-6).epsilon(0.01));
  CHECK(verdict.tables.size() == 2);
}

TEST_CASE("a slice has the floor of the same slice") {
  const auto table = spread(0.001);
  gpu::MeasurementTable floor = make::table();
  for (int i = 0; i < 300; ++i) {
    make::append(floor, {.tv = i % 3 == 0 ? 0.002 : 0.0, .slices = {{"language", i % 3 == 0 ? "de" : "en"}}});
  }
  const Floors floors{.inf = {&floor, ""}};
  CHECK(decide(table, floors, kMean, {{"language", "de"}}).details.at("floor_inf") == doctest::Approx(0.002));
  CHECK(decide(table, floors, kMean, {{"language", "en"}}).details.at("floor_inf") == 0);
  gpu::MeasurementTable english = make::table();
  for (int i = 0; i < 60; ++i) make::append(english, {.tv = 0.001, .slices = {{"language", "en"}}});
  const auto verdict = decide(table, {.inf = {&english, ""}}, kMean, {{"language", "de"}});
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("holds no sequence on language=de") != std::string::npos);
}

TEST_CASE("a floor that resampling cannot bound leaves the stated limit and says why") {
  gpu::MeasurementTable floor = make::table();
  for (int i = 0; i < 20; ++i) make::append(floor, {.tv = 0.1, .slices = {}});
  const auto clause =
      make::numeric("kl", Metric::kl_inf_train, Aggregate::sequence_mean, with_floor(0.005, 4, 0.03));
  const auto verdict = decide(spread(0.01), {.inf = {&floor, ""}}, clause);
  CHECK(verdict.threshold == 0.005);
  CHECK(verdict.details.at("floor_inf_lower") == 0);
  CHECK(verdict.message.find("at least 50 independent sequences") != std::string::npos);
}

TEST_CASE("a floor that is not finite is no noise") {
  gpu::MeasurementTable floor = spread(0.004);
  floor.sequences[7].metrics[make::at(Metric::nonfinite)] = make::constant(1, 1);
  const auto verdict = decide(spread(0.001), {.inf = {&floor, ""}}, kMean);
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("NaN or infinite logits") != std::string::npos);
}

TEST_CASE("a quantile's floor is proven along a grid up to the cap") {
  const auto limits = with_floor(0.01, 2, 0.08);
  const auto clause = make::numeric("tail", Metric::tv, Aggregate::p90, limits);
  schema::Contract contract = make::contract();
  contract.clauses = {clause};
  const auto grid = floor_limit_grid(limits);
  REQUIRE(grid.size() == 8);
  CHECK(grid.back() == 0.08);
  CHECK(grid[3] == doctest::Approx(0.01 * std::sqrt(8)));
  CHECK(required_thresholds(contract).size() == 9);
  CHECK(floor_thresholds(contract).size() == 8);

  // All rows of the floor are at 0.019, so its p90 is over 0.0168 (step 6 of the grid, 0.0476 / 2) … 0.019.
  gpu::MeasurementTable floor = make::table(floor_thresholds(contract));
  for (int i = 0; i < 300; ++i) make::append(floor, {.tv = 0.019, .slices = {}});
  std::size_t steps = 0;
  while (grid[steps] / 2 < 0.019) ++steps;
  const auto verdict = decide(spread(0.025, required_thresholds(contract)), {.inf = {&floor, ""}}, clause);
  CHECK(verdict.threshold == grid[steps - 1]);
  CHECK(verdict.details.at("floor_inf_lower") == grid[steps - 1] / 2);
  CHECK(verdict.verdict == Verdict::pass);

  const auto stale = decide(spread(0.025, required_thresholds(contract)), {.inf = {&floor, ""}},
                            make::numeric("tail", Metric::tv, Aggregate::p90, with_floor(0.011, 2, 0.08)));
  CHECK(stale.verdict == Verdict::error);  // the floor's table has no counts for these limits
}

TEST_CASE("the floor of a largest value is the largest that was seen") {
  const auto floor = spread(0.004);
  const auto clause = make::numeric("most", Metric::tv, Aggregate::max, with_floor(0.005, 4, 0.03));
  const auto verdict = decide(spread(0.012), {.train = {&floor, ""}}, clause);
  CHECK(verdict.details.at("floor_train_lower") == doctest::Approx(0.0044));
  CHECK(verdict.threshold == doctest::Approx(0.0176));
  CHECK(verdict.verdict == Verdict::pass);
}

TEST_CASE("a grid from zero is even and one without room is empty") {
  CHECK(floor_limit_grid(with_floor(0, 2, 0.8)) == std::vector<double>{0.8 * 0.125, 0.8 * 0.25, 0.8 * 0.375,
                                                                       0.8 * 0.5, 0.8 * 0.625, 0.8 * 0.75,
                                                                       0.8 * 0.875, 0.8});
  CHECK(floor_limit_grid(with_floor(0.5, 2, 0.5)).empty());
}

}  // namespace
}  // namespace driftgate::stages
