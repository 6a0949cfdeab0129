#include "stages/clauses/metric_test.hpp"

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
  const schema::MetricSubject overlap{Metric::topk_overlap, Aggregate::sequence_mean};
  const auto all = select_sequences(table, {});
  const auto strict = test_metric(table, all, overlap, {0.9999, false}, {}, 0.05, 1);
  REQUIRE(strict.has_value());
  CHECK(strict->p_high > 0.05);
  CHECK(strict->method == "betting, cap 0.99");
  // ln(1/0.05)/ln(1 + 0.99·0.02/0.98) = 150: 400 do prove 0.98.
  const auto lenient = test_metric(table, all, overlap, {0.98, false}, {}, 0.05, 1);
  REQUIRE(lenient.has_value());
  CHECK(lenient->p_high <= 0.05);
}

namespace {

/// Sequences of 10 tokens of which `in` lie within 1% and none within 0.1%; log W is `log_w`.
gpu::MeasurementTable realised(std::size_t count, std::uint64_t in, double log_w) {
  auto table = make::table();
  table.has_tokens = true;
  for (std::size_t i = 0; i < count; ++i) {
    make::append(table, {});
    auto& r = table.sequences.back().target;
    r.n = 10;
    r.log_w = log_w;
    r.in_band = {0, in, 10};
    r.w = 10;
    r.w_squares = 10;
  }
  return table;
}

MeanTest retention(const gpu::MeasurementTable& table, schema::Band band, double min) {
  const auto test = test_metric(table, select_sequences(table, {}), {Metric::band_retention, {}, band},
                                {min, false}, {}, 0.05, 1);
  REQUIRE(test.has_value());
  return *test;
}

}  // namespace

TEST_CASE("each value of band_retention is a mean of its own") {
  const auto table = realised(400, 8, 0.02);
  CHECK(retention(table, schema::Band::tokens_0_1pct, 0.5).estimate == 0);
  CHECK(retention(table, schema::Band::tokens_1pct, 0.5).estimate == doctest::Approx(0.8));
  CHECK(retention(table, schema::Band::tokens_5pct, 0.5).estimate == 1);
  // e^0.02 − 1 = 2%: outside 1% and inside 5%, whole sequences one unit each.
  CHECK(retention(table, schema::Band::sequences_1pct, 0.5).estimate == 0);
  CHECK(retention(table, schema::Band::sequences_5pct, 0.5).estimate == 1);
  CHECK(retention(table, schema::Band::sequences_5pct, 0.5).n == 400);
  CHECK(retention(table, schema::Band::tokens_1pct, 0.7).p_high <= 0.05);
  CHECK(retention(table, schema::Band::tokens_1pct, 0.9).p_low <= 0.05);
  // No token outside the band in 400 sequences is no proof that there is hardly any.
  CHECK(retention(table, schema::Band::tokens_5pct, 0.9999).p_high > 0.05);
}

TEST_CASE("a retention needs target tokens and says so") {
  auto table = realised(10, 8, 0);
  table.has_tokens = false;
  const auto test =
      test_metric(table, select_sequences(table, {}), {Metric::band_retention, {}, schema::Band::tokens_1pct},
                  {0.9, false}, {}, 0.05, 1);
  REQUIRE_FALSE(test.has_value());
  CHECK(test.error().message.find("token_ids") != std::string::npos);
}

TEST_CASE("a mean ratio is judged only while ess_fraction is above one half") {
  auto table = realised(100, 8, 0);
  table.inf.kernel = table.inf.token_source = table.train.token_source = "k";
  const auto ratio = [&] {
    const auto test =
        test_metric(table, select_sequences(table, {}), {Metric::ratio_mean, {}}, {2, true},
                                  {.means = schema::Means::approximate}, 0.05, 1);
    REQUIRE(test.has_value());
    return *test;
  };
  CHECK(ratio().undecidable.empty());
  CHECK(ratio().details.at("ess_fraction") == 1);
  for (auto& row : table.sequences) row.target.w_squares = 20;  // ess_fraction is exactly one half
  CHECK(ratio().undecidable == "ess_fraction is 0.5, and a mean ratio is judged only above 0.5");
  CHECK(ratio().p_low == 1);
  CHECK_FALSE(ratio().upper.has_value());
}

TEST_CASE("a percentile bootstrap whose level is finer than its replicates does not decide") {
  auto table = realised(100, 8, 0);
  table.inf.kernel = table.inf.token_source = table.train.token_source = "k";
  const auto at = [&](double alpha) {
    return test_derived(table, select_sequences(table, {}), Metric::ess_fraction, 0.5, alpha, 1);
  };
  CHECK(at(0.0005).undecidable.empty());
  CHECK(at(0.0005).details.at("replicates") == 1'999);
  CHECK_FALSE(at(0.0004).undecidable.empty());
}
