#include "stages/greedy_agreement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "schema/verdict_rule.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::Stage;
using schema::Verdict;

namespace {

constexpr GreedyAgreement kSame{32, 32};

/// `count` keys with a prompt each, of which the first `differing` have `agreement` and the others agree.
ShadowInputs compared(std::size_t count, std::size_t differing, GreedyAgreement agreement) {
  ShadowInputs inputs;
  for (std::size_t i = 0; i < count; ++i) {
    ShadowPair pair;
    pair.order = i + 1;
    pair.key_hash = mix64(i);
    pair.slice = i % 2 == 0 ? "language=de" : "language=en";
    pair.greedy = i < differing ? agreement : kSame;
    inputs.pairs.push_back(pair);
  }
  return inputs;
}

schema::Clause at_least(Metric metric, double min, Aggregate aggregate = Aggregate::sequence_mean) {
  schema::Limits limits;
  limits.min = min;
  return make::traffic("greedy", schema::MetricSubject{metric, aggregate}, limits, Stage::shadow_runtime);
}

schema::Clause rate_at_most(double max) {
  return make::traffic("greedy", schema::MetricSubject{Metric::divergence_rate, {}}, make::max(max),
                       Stage::shadow_runtime);
}

schema::ClauseVerdict decide(schema::Clause clause, const ShadowInputs& inputs) {
  auto contract = make::contract();
  contract.clauses = {std::move(clause)};
  auto verdict = evaluate_shadow_runtime(contract, inputs).clauses.at(0);
  CAPTURE(verdict.message);
  const auto again = schema::rederive(verdict);
  REQUIRE(again.has_value());
  CHECK(*again == verdict.verdict);
  return verdict;
}

}  // namespace

TEST_CASE("the figures of one prompt follow from where its two answers first differ") {
  struct Row {
    GreedyAgreement agreement;
    double prefix, first, rate;
  };
  // Two answers of 8 tokens that differ in the fourth; two alike; an empty one beside one of one token.
  const Row rows[] = {{{3, 8}, 0.375, 3, 1},   {{32, 32}, 1, 32, 0}, {{5, 5}, 1, 32, 0},
                      {{5, 6}, 5.0 / 6, 5, 1}, {{0, 0}, 1, 32, 0},   {{0, 1}, 0, 0, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.agreement.equal);
    CAPTURE(row.agreement.longest);
    CHECK(greedy_figure(Metric::prefix_agreement, row.agreement) == row.prefix);
    CHECK(greedy_figure(Metric::first_divergence, row.agreement) == row.first);
    CHECK(greedy_figure(Metric::divergence_rate, row.agreement) == row.rate);
  }
  CHECK(std::isnan(greedy_figure(Metric::tv, kSame)));
}

TEST_CASE("the agreement of the prefix is limited from below, exactly") {
  const auto clause = at_least(Metric::prefix_agreement, 0.9);
  const auto same = decide(clause, compared(400, 0, kSame));
  CHECK(same.verdict == Verdict::pass);
  CHECK(same.estimate == 1.0);
  CHECK(same.upper == 1.0);
  CHECK(*same.lower > 0.9);
  CHECK(same.method == "betting, cap 0.99");
  CHECK_FALSE(same.approximate);
  CHECK(same.threshold == 0.9);
  CHECK(same.limit_kind == "min");
  CHECK(same.clusters == 400);
  // Half agree on 8 of 32 tokens: (0.25 + 1)/2.
  const auto half = decide(clause, compared(400, 200, {8, 32}));
  CHECK(half.verdict == Verdict::violated);
  CHECK(half.estimate == doctest::Approx(0.625));
  CHECK(*half.upper < 0.9);
  CHECK(*half.p_value <= half.alpha);
  CHECK(half.message.find("62.5% come before the first difference") != std::string::npos);
  // ln(1/α)/ln(1 + 0.99·0.1/0.9) = 33.5 prompts are the fewest that could show it.
  CHECK(decide(clause, compared(33, 0, kSame)).verdict == Verdict::inconclusive);
  CHECK(decide(clause, compared(34, 0, kSame)).verdict == Verdict::pass);
}

TEST_CASE("the first difference counts as the whole horizon where there is none") {
  // Half differ after 16 tokens, half not at all: (16 + 32)/2.
  const auto inputs = compared(400, 200, {16, 20});
  const auto fine = decide(at_least(Metric::first_divergence, 20), inputs);
  CHECK(fine.verdict == Verdict::pass);
  CHECK(fine.estimate == doctest::Approx(24));
  CHECK(*fine.lower > 20);
  CHECK(*fine.upper < 32);
  CHECK(fine.message.find("first differ after 24 tokens in the mean") != std::string::npos);
  CHECK(decide(at_least(Metric::first_divergence, 28), inputs).verdict == Verdict::violated);
}

TEST_CASE("the median of the first difference is the share of prompts that differ sooner") {
  const auto clause = at_least(Metric::first_divergence, 8, Aggregate::p50);
  const auto few = decide(clause, compared(200, 40, {4, 32}));
  CHECK(few.verdict == Verdict::pass);
  CHECK(few.estimate == 0.2);
  CHECK(few.upper == clopper_pearson_upper(40, 200, few.alpha));
  CHECK(few.threshold == 8);
  CHECK(few.message.find("20% of 200 prompts") == 0);
  CHECK(few.message.find("the min of 8, which tolerates 50%") != std::string::npos);
  CHECK(decide(clause, compared(200, 150, {4, 32})).verdict == Verdict::violated);
  // Token 8 itself is not before token 8.
  CHECK(decide(clause, compared(200, 150, {8, 32})).estimate == 0.0);
}

TEST_CASE("the rate of prompts whose answers differ has exact binomial limits") {
  const auto inputs = compared(300, 6, {31, 32});
  const auto fine = decide(rate_at_most(0.1), inputs);
  CHECK(fine.verdict == Verdict::pass);
  CHECK(fine.method == "exact binomial");
  CHECK(fine.estimate == 0.02);
  CHECK(fine.lower == clopper_pearson_lower(6, 300, fine.alpha));
  CHECK(fine.upper == clopper_pearson_upper(6, 300, fine.alpha));
  CHECK(fine.message.find("2% of 300 prompts have greedy answers") == 0);
  CHECK(decide(rate_at_most(0.005), inputs).verdict == Verdict::violated);
  CHECK(decide(rate_at_most(0.03), inputs).verdict == Verdict::inconclusive);
}

TEST_CASE("a key with many prompts counts once") {
  ShadowInputs inputs = compared(10, 1, {0, 32});
  for (int i = 0; i < 8; ++i) {
    inputs.pairs.push_back(inputs.pairs[0]);
    inputs.pairs.back().order = 100 + static_cast<std::uint64_t>(i);
  }
  const auto verdict = decide(rate_at_most(0.5), inputs);
  CHECK(verdict.n == 18);
  CHECK(verdict.clusters == 10);
  CHECK(verdict.estimate == doctest::Approx(0.1));
  const auto mean = decide(at_least(Metric::prefix_agreement, 0.5), inputs);
  CHECK(mean.n == 18);
  CHECK(mean.clusters == 10);
  CHECK(mean.estimate == doctest::Approx(0.9));
}

TEST_CASE("a rate is held to a multiple of how often the candidate differs from itself") {
  ShadowInputs inputs = compared(300, 21, {4, 32});
  CHECK(decide(rate_at_most(0.02), inputs).verdict == Verdict::violated);
  for (std::size_t i = 0; i < 300; ++i)
    inputs.pairs[i].greedy_floor = i < 30 ? GreedyAgreement{9, 32} : kSame;
  const auto beside = decide(rate_at_most(0.02), inputs);
  CHECK(beside.verdict == Verdict::violated);  // a floor that the clause does not name is shown, no more
  CHECK(beside.details.at("floor_inf") == doctest::Approx(0.1));
  CHECK(beside.message.find("alone and in a batch, without another kernel, it is 10%") != std::string::npos);
  auto clause = rate_at_most(0.02);
  clause.limits.floor_multiple = 2;
  clause.limits.floor_cap = 0.2;
  const auto raised = decide(clause, inputs);
  const double lower = clopper_pearson_lower(30, 300, raised.alpha);
  CHECK(raised.alpha == beside.alpha / 2);
  CHECK(raised.threshold == 2 * lower);
  CHECK(raised.details.at("floor_inf_lower") == lower);
  CHECK(raised.details.at("stated_max") == 0.02);
  CHECK(raised.verdict == Verdict::pass);
  clause.limits.floor_cap = 0.03;
  CHECK(decide(clause, inputs).threshold == 0.03);
  CHECK(decide(clause, inputs).verdict == Verdict::violated);
  for (ShadowPair& pair : inputs.pairs) pair.greedy_floor.reset();
  const auto unknown = decide(clause, inputs);
  CHECK(unknown.verdict == Verdict::error);
  CHECK(unknown.message.find("has a floor_multiple") != std::string::npos);
}

TEST_CASE("pairs whose tokens are not all listed are left out, counted and named") {
  ShadowInputs inputs = compared(200, 0, kSame);
  for (std::size_t i = 0; i < 50; ++i) {
    inputs.pairs[i].greedy.reset();
    inputs.pairs[i].unlisted_tokens = true;
  }
  auto contract = make::contract();
  contract.clauses = {rate_at_most(0.1)};
  const auto report = evaluate_shadow_runtime(contract, inputs);
  const auto& verdict = report.clauses.at(0);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.n == 150);
  CHECK(verdict.details.at("left_out") == 50);
  CHECK(verdict.message.find("50 more were left out") != std::string::npos);
  CHECK(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.starts_with("50 pairs of greedy answers were not compared");
  }));
}

TEST_CASE("nothing that could be compared is an error that says what it takes, and never a violation") {
  ShadowInputs inputs = compared(50, 0, kSame);
  for (ShadowPair& pair : inputs.pairs) pair.greedy.reset();
  for (const auto& clause : {rate_at_most(0.1), at_least(Metric::prefix_agreement, 0.9),
                             at_least(Metric::first_divergence, 8, Aggregate::p50)}) {
    const auto verdict = decide(clause, inputs);
    CHECK(verdict.verdict == Verdict::error);
    CHECK(verdict.message.find("log-probabilities of the tokens that they generate") != std::string::npos);
  }
}

TEST_CASE("a clause on critical slices is decided on each of them") {
  ShadowInputs inputs = compared(600, 0, kSame);
  for (std::size_t i = 0; i < 600; i += 4) inputs.pairs[i].greedy = GreedyAgreement{2, 32};  // half of de
  auto contract = make::contract();
  contract.slices.critical = {{{"language", "de"}}, {{"language", "en"}}};
  contract.clauses = {rate_at_most(0.1)};
  contract.clauses[0].slices = {schema::SliceRole::critical};
  const auto report = evaluate_shadow_runtime(contract, inputs);
  REQUIRE(report.clauses.size() == 2);
  CHECK(report.clauses[0].verdict == Verdict::violated);
  CHECK(report.clauses[0].estimate == 0.5);
  CHECK(report.clauses[1].verdict == Verdict::pass);
  CHECK(report.clauses[1].n == 300);
}
