#include "stages/metric_test.hpp"

#include <doctest/doctest.h>

#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;

TEST_CASE("an overlap of 1 in every row of 400 sequences is no proof of 0.9999") {
  auto table = make::table();
  for (int i = 0; i < 400; ++i) {
    make::append(table, {});
    table.sequences.back().metrics[make::at(Metric::topk_overlap)] = make::constant(10, 1);
  }
  const schema::MetricSubject overlap{Metric::topk_overlap, Aggregate::mean};
  const auto all = select_sequences(table, {});
  const auto strict = test_metric(table, all, overlap, {0.9999, false}, 0.05, 1);
  REQUIRE(strict.has_value());
  CHECK(strict->p_high > 0.05);
  CHECK(strict->method == "betting, cap 0.99");
  // ln(1/0.05)/ln(1 + 0.99·0.02/0.98) = 150: 400 do prove 0.98.
  const auto lenient = test_metric(table, all, overlap, {0.98, false}, 0.05, 1);
  REQUIRE(lenient.has_value());
  CHECK(lenient->p_high <= 0.05);
}
