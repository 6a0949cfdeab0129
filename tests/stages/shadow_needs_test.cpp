#include "stages/shadow_needs.hpp"

#include <doctest/doctest.h>

#include "schema/contract/least_n.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Metric;
using schema::Stage;

namespace {

constexpr double kAlpha = 0.05;

schema::Clause errors(double max, std::vector<schema::SliceRole> slices = {}) {
  schema::Clause clause = make::traffic("errors", schema::MetricSubject{Metric::error_rate, {}},
                                        make::max(max), Stage::shadow_runtime);
  clause.slices = std::move(slices);
  return clause;
}

}  // namespace

TEST_CASE(
    "the pairs that shadow needs are the most that any of its clauses needs, at the level of the attempt") {
  schema::Contract contract = make::contract();
  contract.clauses = {errors(0.02), errors(0.01)};
  const auto first = shadow_needs(contract, 1);
  REQUIRE(first.size() == 1);
  CHECK(first[0].where.empty());
  CHECK(first[0].pairs ==
        *schema::least_n_binomial(0.01, schema::spent_alpha(Stage::shadow_runtime, kAlpha, 1)));
  const auto third = shadow_needs(contract, 3);
  CHECK(third[0].pairs ==
        *schema::least_n_binomial(0.01, schema::spent_alpha(Stage::shadow_runtime, kAlpha, 3)));
  CHECK(third[0].pairs > first[0].pairs);
}

TEST_CASE("a clause on critical slices needs its pairs on each of them") {
  schema::Contract contract = make::contract();
  contract.slices.critical = {{{"language", "de"}}, {{"language", "fr"}}};
  contract.clauses = {errors(0.1), errors(0.02, {schema::SliceRole::critical})};
  const auto needs = shadow_needs(contract, 1);
  REQUIRE(needs.size() == 3);
  const double alpha = schema::spent_alpha(Stage::shadow_runtime, kAlpha, 1);
  CHECK(needs[0].pairs == *schema::least_n_binomial(0.1, alpha));
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    CHECK(needs[i].where == contract.slices.critical[i - 1]);
    CHECK(needs[i].pairs == *schema::least_n_binomial(0.02, alpha));
  }
}

TEST_CASE("clauses of other stages, signals and what nothing can prove ask for no pairs") {
  schema::Contract contract = make::contract();
  schema::Limits pairs;
  pairs.min_count = 100'000;
  contract.clauses = {
      errors(0), make::numeric("tv", Metric::tv, schema::Aggregate::mean, make::max(0.01)),
      make::traffic("pairs", schema::SignalSubject{Metric::shadow_pairs}, pairs, Stage::shadow_runtime)};
  const auto needs = shadow_needs(contract, 1);
  REQUIRE(needs.size() == 1);
  CHECK(needs[0].pairs == 0);
}
