#include "gpu/table/summary.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace driftgate::gpu;

namespace {

std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

/// Two pairs of tokens in one sequence and one in another, with w = 2, ½ and 1.
MeasurementTable table_of_three_tokens() {
  const std::vector<TargetTokenPair> pairs = {{0, std::log(0.5), std::log(0.25)},
                                              {0, std::log(0.2), std::log(0.4)},
                                              {1, std::log(0.3), std::log(0.3)}};
  auto table = measure_target_tokens(pairs, {});
  REQUIRE(table);
  return std::move(*table);
}

const DerivedSummary& find(const Summary& summary, Metric metric) {
  for (const DerivedSummary& derived : summary.derived) {
    if (derived.metric == metric) return derived;
  }
  FAIL("missing");
  return summary.derived[0];
}

}  // namespace

TEST_CASE("derived figures of three tokens are those computed by hand") {
  MeasurementTable table = table_of_three_tokens();
  const Summary summary = summarise(table);
  const auto value = [&](Metric metric) { return find(summary, metric).figures[0].second; };
  CHECK(value(Metric::ratio_mean) == doctest::Approx(3.5 / 3));
  CHECK(value(Metric::tv_sampled) == doctest::Approx(1.5 / 6));
  CHECK(value(Metric::mult_prob_error) == doctest::Approx(5.0 / 3));
  CHECK(value(Metric::ess_fraction) == doctest::Approx(3.5 * 3.5 / (3 * 5.25)));
  CHECK(value(Metric::clip_budget_used) == doctest::Approx(2.0 / 3));
  CHECK(value(Metric::chi2_sequence) == doctest::Approx(0.0));  // both sequences have W = 1
  CHECK(find(summary, Metric::chi2_sequence).figures[1].second == doctest::Approx(0.0));
  const auto& bands = find(summary, Metric::band_retention).figures;
  REQUIRE(bands.size() == 6);
  CHECK(bands[0].first == "tokens.0_1pct");
  CHECK(bands[0].second == doctest::Approx(1.0 / 3));
  CHECK(bands[3].first == "sequences.0_1pct");
  CHECK(bands[3].second == doctest::Approx(1.0));
}

TEST_CASE("tv_sequence is the mean by which the ratios of whole sequences fall short of 1") {
  // W = ½·½ and 4·1: a ratio above 1 falls short by nothing.
  const std::vector<TargetTokenPair> pairs = {{0, std::log(0.2), std::log(0.4)},
                                              {0, std::log(0.1), std::log(0.2)},
                                              {1, std::log(0.4), std::log(0.1)},
                                              {1, std::log(0.7), std::log(0.7)}};
  auto table = measure_target_tokens(pairs, {});
  REQUIRE(table);
  const auto value = [](const Summary& summary) {
    return find(summary, Metric::tv_sequence).figures[0].second;
  };
  CHECK(value(summarise(*table)) == doctest::Approx((0.75 + 0) / 2));
  CHECK(find(summarise(*table), Metric::tv_sequence).descriptive);
  table->infos[0].slices["l"] = "de";
  CHECK(value(summarise(*table, {{"l", "de"}})) == doctest::Approx(0.75));
  CHECK(value(summarise(*table, {{"l", kMissingSliceValue}})) == doctest::Approx(0));
  table->inf.kernel = table->inf.token_source = "k";
  CHECK_FALSE(find(summarise(*table), Metric::tv_sequence).descriptive);
}

TEST_CASE("figures that need sampled tokens are descriptive unless the tokens were sampled by K_inf") {
  MeasurementTable table = table_of_three_tokens();
  CHECK(find(summarise(table), Metric::tv_sampled).descriptive);
  CHECK_FALSE(find(summarise(table), Metric::abs_log_ratio).descriptive);
  table.inf.kernel = table.inf.token_source = "k";
  CHECK_FALSE(find(summarise(table), Metric::tv_sampled).descriptive);
}

TEST_CASE("means are not numbers when a row in scope is not, and order statistics are of the others") {
  MeasurementTable table = table_of_three_tokens();
  ++table.sequences[1].rows;
  const Summary all = summarise(table);
  CHECK(std::isnan(all.metrics[index_of(Metric::log_ratio)].mean));
  CHECK(std::isnan(all.metrics[index_of(Metric::log_ratio)].sequence_mean));
  CHECK(all.metrics[index_of(Metric::log_ratio)].max == doctest::Approx(std::log(2.0)));
}

TEST_CASE("a metric that was not measured has no figures") {
  const Summary summary = summarise(table_of_three_tokens());
  CHECK(summary.metrics[index_of(Metric::tv)].n == 0);
  CHECK(std::isnan(summary.metrics[index_of(Metric::tv)].mean));
  CHECK(std::isnan(summary.metrics[index_of(Metric::tv)].p99));
}

TEST_CASE("a slice's figures are over its own sequences and quantiles stay within its extremes") {
  MeasurementTable table = table_of_three_tokens();
  table.infos[0].slices["l"] = "de";
  const Summary slice = summarise(table, {{"l", "de"}});
  CHECK(slice.rows == 2);
  CHECK(slice.sequences == 1);
  CHECK(std::isnan(slice.metrics[index_of(Metric::log_ratio)].p50));  // no histogram of that slice was kept
  const Summary missing = summarise(table, {{"l", kMissingSliceValue}});
  CHECK(missing.rows == 1);
  const MetricSummary all = summarise(table).metrics[index_of(Metric::logprob_train)];
  CHECK(all.p99_9 <= all.max);
  CHECK(all.p50 >= all.min);
  CHECK(all.p99_9 == doctest::Approx(all.max).epsilon(0.01));
}
