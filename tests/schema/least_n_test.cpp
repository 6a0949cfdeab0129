#include "schema/least_n.hpp"

#include <doctest/doctest.h>

namespace driftgate::schema {
namespace {

TEST_CASE("the least sample sizes are those that the statistics document names") {
  CHECK(least_n_betting(0.001, 0.05) == 3025);   // p99_9, no exceedance, bet cap 0.99
  CHECK(least_n_binomial(0.001, 0.05) == 2995);  // the floor of any method
  CHECK(least_n_outcome(0.01, 0.05) == 368);     // b = c = 0 and margin 0.01
  CHECK(least_n_binomial(0.01, 0.05) == 299);    // ln(1/α)/ln(1 + max/(1 − max)) at 1%
}

TEST_CASE("the mixture of bet caps needs more than its best cap and less than its worst") {
  const auto mixture = least_n_betting_mixture(0.01, 0.05);
  REQUIRE(mixture.has_value());
  CHECK(*mixture > *least_n_betting(0.01, 0.05));
  CHECK(*mixture <= *least_n_betting(0.01, 0.025));
  // Of four planned starts one runs: its e-value must reach 4/α − 3 instead of 1/α.
  CHECK(least_n_betting_mixture(0.02, 0.025, 4) == 285);
}

TEST_CASE("a limit of zero can never be proven and a limit of everything needs one look") {
  CHECK_FALSE(least_n_betting(0, 0.05).has_value());
  CHECK_FALSE(least_n_betting_mixture(0, 0.05).has_value());
  CHECK_FALSE(least_n_binomial(0, 0.05).has_value());
  CHECK(least_n_betting(1, 0.05) == 1);
  CHECK(least_n_binomial(1, 0.05) == 1);
}

TEST_CASE("what all runs spend together stays within alpha") {
  double fixed = 0, streaming = 0;
  for (std::uint32_t k = 1; k <= 1000; ++k) {
    fixed += spent_alpha_fixed(0.05, k);
    streaming += spent_alpha_streaming(0.05, k);
  }
  CHECK(fixed < 0.05);
  CHECK(fixed > 0.0499);  // the rest of the series, 6α/π² · Σ_{k>1000} 1/k² ≈ 3e-5
  CHECK(streaming <= 0.05);
  CHECK(spent_alpha_streaming(0.05, 1) == 0.025);
}

TEST_CASE("a metric that counts events needs the sample of no event, however large") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::offline_numeric);
  clause.subject = MetricSubject{Metric::topk_overlap, Aggregate::mean};
  clause.limits.min = 0.999;
  const double alpha = spent_alpha_fixed(contract.confidence.alpha, 1);
  const auto overlap = least_n(clause, contract);
  REQUIRE(overlap.size() == 1);
  CHECK(overlap[0].n == least_n_betting(1 - 0.999, alpha));
  clause.limits = {};
  clause.limits.max = 0.001;
  clause.subject = MetricSubject{Metric::top1_flip, Aggregate::mean};
  CHECK(least_n(clause, contract).at(0).n == least_n_betting(0.001, alpha));
  clause.subject = MetricSubject{Metric::tv, Aggregate::mean};
  CHECK(least_n(clause, contract).at(0).n == 200);
}

TEST_CASE("a difference of failure rates needs the sample in which no pair differs") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::shadow_runtime);
  clause.subject = MetricSubject{Metric::error_rate, {}};
  clause.limits.max_delta = 0.01;
  const double alpha = spent_alpha_fixed(contract.confidence.alpha, 1);
  CHECK(requirement_of(clause) == Requirement::proof);
  CHECK(least_n(clause, contract).at(0).n == least_n_outcome(0.01, alpha));
  clause.limits.max_delta = 0;
  CHECK_FALSE(least_n(clause, contract).at(0).n.has_value());
}

TEST_CASE("discovery searches clauses whose harm has a betting e-value") {
  Clause clause;
  clause.stages = stage_bit(Stage::statistical_slice);
  const auto searched = [&](Subject subject, auto set) {
    clause.subject = std::move(subject);
    clause.limits = {};
    set(clause.limits);
    return discovery_searches(clause);
  };
  const auto max = [](Limits& limits) { limits.max = 0.1; };
  const auto delta = [](Limits& limits) { limits.max_delta = 0.1; };
  CHECK(searched(MetricSubject{Metric::tv, Aggregate::mean}, max));
  CHECK(searched(MetricSubject{Metric::kl_inf_train, Aggregate::p99}, max));
  CHECK(searched(MetricSubject{Metric::clip_budget_used, {}}, max));
  CHECK(searched(OutcomeSubject{"correct"}, max));
  CHECK_FALSE(searched(MetricSubject{Metric::kl_inf_train, Aggregate::mean}, max));
  CHECK_FALSE(searched(MetricSubject{Metric::tv, Aggregate::max}, max));
  CHECK_FALSE(searched(MetricSubject{Metric::ece_drift, {}}, max));
  CHECK_FALSE(searched(MetricSubject{Metric::entropy_inf, Aggregate::mean}, delta));
  clause.stages = stage_bit(Stage::offline_numeric);
  CHECK_FALSE(searched(MetricSubject{Metric::tv, Aggregate::mean}, max));
}

}  // namespace
}  // namespace driftgate::schema
