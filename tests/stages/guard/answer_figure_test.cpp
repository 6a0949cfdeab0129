#include "stages/guard/answer_figure.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "gpu/drift.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;

namespace {

/// Three tokens with w = p/q of ½, 2 and 1.
gpu::SequenceRow three_tokens() {
  const std::vector<gpu::TargetTokenPair> tokens{
      {0, -2 - std::log(2.0), -2}, {0, -2 + std::log(2.0), -2}, {0, -2, -2}};
  auto table = gpu::measure_target_tokens(tokens, {});
  REQUIRE(table.has_value());
  return table->sequences.at(0);
}

struct Found {
  double limit = 0, value = 0, figure = 0;
};

Found found(const schema::Clause& clause, std::uint32_t max_tokens = 0) {
  auto contract = make::contract();
  contract.assumptions.max_tokens = max_tokens;
  const auto limit = answer_limit(clause, contract);
  REQUIRE(limit.has_value());
  const auto figure = answer_figure(clause, *limit, max_tokens, three_tokens());
  REQUIRE(figure.has_value());
  return {limit->limit, figure->value, figure->figure};
}

schema::Clause mean_of(Metric metric, double max, std::optional<double> clip = std::nullopt) {
  auto clause =
      make::slice_clause("c", schema::MetricSubject{metric, Aggregate::sequence_mean}, make::max(max), {});
  clause.clip = clip;
  return clause;
}

}  // namespace

TEST_CASE("total variation and KL are estimated from sampled tokens") {
  const auto tv = found(mean_of(Metric::tv, 0.1));
  CHECK(tv.limit == doctest::Approx(0.1));
  CHECK(tv.value == doctest::Approx(1.0 / 6));
  const auto clipped = found(mean_of(Metric::tv, 0.1, 0.5));
  CHECK(clipped.limit == doctest::Approx(0.2));
  CHECK(clipped.value == doctest::Approx(1.0 / 3));
  CHECK(clipped.figure == doctest::Approx(1.0 / 6));
  const auto capped = found(mean_of(Metric::tv, 0.1, 0.125));
  CHECK(capped.value == 1);
  CHECK(capped.figure == doctest::Approx(0.125));
  const auto kl = found(mean_of(Metric::kl_inf_train, 0.05, 0.5));
  CHECK(kl.limit == doctest::Approx(0.1));
  CHECK(kl.figure == doctest::Approx(0.5 / 3));
  CHECK(kl.value == doctest::Approx(1.0 / 3));
}

TEST_CASE("a range that does not begin at 0 is moved, and a smallest value is held from the other side") {
  const auto error = found(mean_of(Metric::mult_prob_error, 1.5, 3));
  CHECK(error.limit == doctest::Approx(0.25));
  CHECK(error.figure == doctest::Approx(5.0 / 3));
  CHECK(error.value == doctest::Approx(1.0 / 3));
  schema::Limits least;
  least.min = 0.9;
  const auto kept = found(make::slice_clause(
      "c", schema::MetricSubject{Metric::band_retention, Aggregate::sequence_mean, schema::Band::tokens_5pct},
      least, {}));
  CHECK(kept.limit == doctest::Approx(0.1));
  CHECK(kept.value == doctest::Approx(2.0 / 3));
  CHECK(kept.figure == doctest::Approx(1.0 / 3));
}

TEST_CASE("a quantile over sequences is about the share of answers beyond it") {
  auto clause = make::slice_clause("c", schema::MetricSubject{Metric::abs_log_ratio, Aggregate::p97},
                                   make::max(0.3), {});
  clause.over = schema::QuantileOver::sequences;
  const auto beyond = found(clause);
  CHECK(beyond.limit == doctest::Approx(0.03));
  CHECK(beyond.value == 1);
  clause.limits.max = 0.5;
  CHECK(found(clause).value == 0);
}

TEST_CASE("a mean over tokens weighs an answer by its tokens, of which it has at most what is assumed") {
  const auto clause = make::slice_clause(
      "c", schema::MetricSubject{Metric::clip_budget_used, Aggregate::mean}, make::max(0.1), {});
  const auto used = found(clause, 6);
  CHECK(used.limit == doctest::Approx(0.1));
  CHECK(used.figure == doctest::Approx(2.0 / 3));
  CHECK(used.value == doctest::Approx((2.0 + 0.1 * 3) / 6));
  CHECK(found(clause, 2).value == doctest::Approx(2.0 / 3));
  CHECK_FALSE(answer_limit(clause, make::contract()).has_value());
}

TEST_CASE("what an answer's own tokens do not show, and what could never be exceeded, is not tested") {
  const auto tested = [](const schema::Clause& clause) {
    return answer_limit(clause, make::contract()).has_value();
  };
  CHECK(tested(mean_of(Metric::tv_sequence, 0.5)));
  CHECK_FALSE(tested(mean_of(Metric::top1_flip, 0.1)));
  CHECK_FALSE(tested(mean_of(Metric::logit_span, 0.1, 1)));
  CHECK_FALSE(tested(mean_of(Metric::abs_log_ratio, 0.1)));  // without a clip it has no upper end
  CHECK_FALSE(tested(mean_of(Metric::tv, 0.5, 0.5)));
  CHECK_FALSE(tested(make::traffic("c", schema::MetricSubject{Metric::tv, Aggregate::sequence_mean},
                                   make::max(0.1), schema::Stage::shadow_runtime)));
  auto tail = make::slice_clause("c", schema::MetricSubject{Metric::tv, Aggregate::p97}, make::max(0.1), {});
  tail.over = schema::QuantileOver::sequences;
  CHECK_FALSE(tested(tail));
}

TEST_CASE("with a noise floor the limit is its cap, which is the largest that the promotion could have had") {
  auto clause = mean_of(Metric::tv, 0.02);
  clause.limits.floor_multiple = 4;
  clause.limits.floor_cap = 0.06;
  CHECK(found(clause).limit == doctest::Approx(0.06));
}
