#include "stages/planning/power.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "schema/contract/contract.hpp"
#include "schema/contract/least_n.hpp"
#include "tests/stages/planning_contract.hpp"

namespace driftgate::stages {
namespace {

schema::Contract contract_with(const std::string& clauses) {
  return planning_contract(clauses, "steps: [{share: 0.01}, {share: 1.0}], min_keys: 10");
}

ClausePower only(const schema::Contract& contract) {
  const auto all = power_at_half(contract, 1);
  REQUIRE(all.size() == 1);
  return all[0];
}

TEST_CASE("a tighter mean takes more sequences than a loose one, and more than the least") {
  const auto loose = contract_with("numerical: [{id: a, metric: tv, aggregate: sequence_mean, max: 0.05}]");
  const auto tight = contract_with("numerical: [{id: a, metric: tv, aggregate: sequence_mean, max: 0.005}]");
  const ClausePower few = only(loose);
  const ClausePower many = only(tight);
  REQUIRE(few.n.has_value());
  REQUIRE(many.n.has_value());
  CHECK(*few.n < *many.n);
  CHECK(*few.n >= *schema::least_n(loose.clauses[0], loose)[0].n);
  CHECK(few.unit == "sequences");
}

TEST_CASE("clauses on greedy answers tell how many pairs would show half of what they tolerate") {
  const auto of = [](const std::string& clause) {
    return only(contract_with("runtime: [{id: a, " + clause + ", stages: [shadow-runtime]}]"));
  };
  for (const char* clause :
       {"metric: divergence_rate, max: 0.1", "metric: prefix_agreement, min: 0.9",
        "metric: first_divergence, min: 28", "metric: first_divergence, aggregate: p50, min: 8"}) {
    CAPTURE(clause);
    const auto contract =
        contract_with(std::string("runtime: [{id: a, ") + clause + ", stages: [shadow-runtime]}]");
    const ClausePower power = of(clause);
    REQUIRE(power.n.has_value());
    CHECK(power.unit == "pairs");
    CHECK(*power.n > *schema::least_n(contract.clauses[0], contract)[0].n);
  }
  CHECK(*of("metric: divergence_rate, max: 0.05").n > *of("metric: divergence_rate, max: 0.1").n);
}

TEST_CASE("a clip makes a mean provable from few sequences, and its quantile clause takes about as many") {
  const auto clipped = only(
      contract_with("numerical: [{id: a, metric: tv, aggregate: sequence_mean, clip: 0.25, max: 0.02}]"));
  const auto whole =
      only(contract_with("numerical: [{id: a, metric: tv, aggregate: sequence_mean, max: 0.02}]"));
  const auto tail =
      only(contract_with("numerical: [{id: a, metric: tv, aggregate: p97, over: sequences, max: 0.25}]"));
  REQUIRE(clipped.n.has_value());
  REQUIRE(whole.n.has_value());
  REQUIRE(tail.n.has_value());
  CHECK(*clipped.n <= 120);
  CHECK(*whole.n > 300);
  CHECK(*tail.n >= 116);
  CHECK(*tail.n <= 145);
}

TEST_CASE("the approximate method of a known range takes what Gaffke's bound does") {
  auto contract = contract_with("numerical: [{id: a, metric: tv, aggregate: sequence_mean, max: 0.02}]");
  contract.confidence.means = schema::Means::approximate;
  const schema::LeastN least = schema::least_n(contract.clauses[0], contract)[0];
  CHECK(least.n == 173);  // ln(1/0.0304)/ln(1/0.98)
  CHECK(least.why == "Gaffke's bound, approximate (its validity is conjectured)");
  // In steps of a quarter from 173 on; 37% pass at 340.
  CHECK(only(contract).n == 425);
}

TEST_CASE("the approximate method takes tens of sequences for values without a largest one") {
  auto contract = contract_with("numerical: [{id: a, metric: kl_inf_train, clip: 1, max: 0.01}]");
  contract.clauses[0].clip.reset();
  contract.confidence.means = schema::Means::approximate;
  const ClausePower power = only(contract);
  REQUIRE(power.n.has_value());
  CHECK(*power.n >= 50);
  CHECK(*power.n <= 100);
}

TEST_CASE("the same seed gives the same number") {
  const auto contract = contract_with("numerical: [{id: a, metric: logit_span, aggregate: p99, max: 0.5}]");
  CHECK(only(contract).n == only(contract).n);
}

TEST_CASE("a failure rate at half its limit takes more keys than one that never fails") {
  const auto contract =
      contract_with("runtime: [{id: errors, metric: error_rate, max: 0.02, stages: [canary]}]");
  const ClausePower power = only(contract);
  REQUIRE(power.n.has_value());
  CHECK(*power.n > *schema::least_n(contract.clauses[0], contract)[0].n);
  const auto steps = durations(power, contract, 100);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].seconds == doctest::Approx(static_cast<double>(*power.n)));  // 1% of 100 a second
  CHECK(steps[1].seconds == doctest::Approx(static_cast<double>(*power.n) / 100));
}

TEST_CASE("mirrored requests follow the exact binomial") {
  const auto contract =
      contract_with("runtime: [{id: errors, metric: error_rate, max: 0.1, stages: [shadow-runtime]}]");
  const ClausePower power = only(contract);
  REQUIRE(power.n.has_value());
  // At 5% failures and α = 0.0304 some 150 requests leave the upper limit under 10% in 4 of 5 runs.
  CHECK(*power.n > 100);
  CHECK(*power.n < 300);
}

TEST_CASE("what passes unless violated needs no number, and what cannot pass says so") {
  CHECK(power_at_half(contract_with("runtime: [{id: t, metric: ttft_ms, aggregate: p95, max_ratio: 1.1}]"), 1)
            .empty());
  const ClausePower never =
      only(contract_with("numerical: [{id: a, metric: tv, aggregate: sequence_mean, max: 0}]"));
  CHECK_FALSE(never.n.has_value());
  CHECK(never.why_not.find("no amount of data") != std::string::npos);
}

TEST_CASE("an outcome at half its margin takes more pairs than identical outcomes") {
  const auto contract = contract_with(
      "statistical: [{id: task, outcome: correct, non_inferiority_margin: 0.03, slices: [critical]}]");
  const ClausePower power = only(contract);
  REQUIRE(power.n.has_value());
  CHECK(*power.n > *schema::least_n(contract.clauses[0], contract)[0].n);
  CHECK(power.unit == "outcomes");
}

}  // namespace
}  // namespace driftgate::stages
