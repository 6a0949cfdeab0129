#include "schema/contract/least_n.hpp"

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
    fixed += spent_alpha(Stage::statistical_slice, 0.05, k);
    streaming += spent_alpha(Stage::canary, 0.05, k);
  }
  CHECK(fixed < 0.05);
  CHECK(fixed > 0.0499);  // the rest of the series, 6α/π² · Σ_{k>1000} 1/k² ≈ 3e-5
  CHECK(streaming <= 0.05);
  CHECK(spent_alpha(Stage::canary, 0.05, 1) == 0.025);
}

TEST_CASE("a metric that counts events needs the sample of no event, however large") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::offline_numeric);
  clause.subject = MetricSubject{Metric::topk_overlap, Aggregate::mean};
  clause.limits.min = 0.999;
  const double alpha = spent_alpha(Stage::offline_numeric, contract.confidence.alpha, 1);
  const auto overlap = least_n(clause, contract);
  REQUIRE(overlap.size() == 1);
  CHECK(overlap[0].n == least_n_betting(1 - 0.999, alpha));
  clause.limits = {};
  clause.limits.max = 0.001;
  clause.subject = MetricSubject{Metric::top1_flip, Aggregate::mean};
  CHECK(least_n(clause, contract).at(0).n == least_n_betting(0.001, alpha));
}

TEST_CASE("an exact mean needs what its limit leaves of the range, a clip leaves more of it") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::offline_numeric);
  clause.subject = MetricSubject{Metric::tv, Aggregate::sequence_mean};
  clause.limits.max = 0.02;
  const auto needs = [&] { return least_n(clause, contract).at(0); };
  CHECK(needs().alpha == spent_alpha(Stage::offline_numeric, 0.05, 1));
  CHECK(needs().n == 175);
  contract.confidence.alpha =
      0.05 / spent_alpha(Stage::offline_numeric, 1, 1);  // so that 0.05 itself is spent
  CHECK(needs().n == 150);                               // no exact method has less, whatever the drift
  contract.confidence.alpha = 0.05;
  clause.clip = 0.25;
  CHECK(share_left(clause) == doctest::Approx(0.08));
  CHECK(needs().n == 43);
  clause.limits.floor_multiple = 4;  // half of α is spent on the floor
  CHECK(needs().n == least_n_betting(0.08, needs().alpha));
  CHECK(*needs().n > 43);
}

TEST_CASE("a limit on the share of sequences needs 116 of them at the α that a first run spends") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::statistical_slice);
  clause.subject = MetricSubject{Metric::tv, Aggregate::p97};
  clause.over = QuantileOver::sequences;
  clause.limits.max = 0.25;
  const LeastN need = least_n(clause, contract).at(0);
  CHECK(need.n == 116);
  CHECK(need.alpha == doctest::Approx(0.0304).epsilon(0.001));
}

TEST_CASE("a mean without a largest value is exact with a clip alone, and resampled from 50 on") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::offline_numeric);
  clause.subject = MetricSubject{Metric::kl_inf_train, Aggregate::sequence_mean};
  clause.limits.max = 5e-3;
  const auto needs = [&] { return least_n(clause, contract).at(0).n; };
  CHECK_FALSE(needs().has_value());
  CHECK_FALSE(share_left(clause).has_value());
  clause.clip = 0.1;
  CHECK(needs() == 69);
  clause.clip.reset();
  contract.confidence.means = Means::approximate;
  CHECK(needs() == 50);
  // Of tokens, too; fewer than 50 are bet on where their range is known.
  clause.subject = MetricSubject{Metric::tv, Aggregate::mean};
  CHECK(needs() == 50);
  clause.limits.max = 0.2;
  CHECK(needs() == least_n_betting(0.2, spent_alpha(Stage::offline_numeric, 0.05, 1)));
}

TEST_CASE(
    "an approximate mean of a known range takes as many sequences as Gaffke's bound does without any drift") {
  Contract contract;
  contract.confidence.means = Means::approximate;
  Clause clause;
  clause.stages = stage_bit(Stage::offline_numeric);
  clause.subject = MetricSubject{Metric::tv, Aggregate::sequence_mean};
  clause.limits.max = 0.02;
  const auto needs = [&] { return least_n(clause, contract).at(0).n; };
  CHECK(needs() == 173);
  CHECK(needs() == least_n_binomial(0.02, spent_alpha(Stage::offline_numeric, 0.05, 1)));
  clause.clip = 0.25;
  CHECK(needs() == 42);
  clause.clip.reset();
  clause.subject = MetricSubject{Metric::top1_flip, Aggregate::sequence_mean};
  CHECK(needs() == 173);
  clause.limits.max = 1;
  CHECK(needs() == 1);
  clause.limits.max = 0;
  CHECK_FALSE(needs().has_value());
}

TEST_CASE("a clause's own least size of slices stands before that of the contract") {
  Contract contract;
  contract.slices.min_sequences = 200;
  Clause clause;
  CHECK(min_sequences_of(clause, contract) == 200);
  clause.min_sequences = 120;
  CHECK(min_sequences_of(clause, contract) == 120);
}

TEST_CASE("a difference of failure rates needs the sample in which no pair differs") {
  Contract contract;
  Clause clause;
  clause.stages = stage_bit(Stage::shadow_runtime);
  clause.subject = MetricSubject{Metric::error_rate, {}};
  clause.limits.max_delta = 0.01;
  const double alpha = spent_alpha(Stage::offline_numeric, contract.confidence.alpha, 1);
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
