#include "stages/clauses/clip_report.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "schema/verdict_rule.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/statistical_slice.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::Verdict;

namespace {

schema::Clause capped(Metric metric, double clip, double max) {
  schema::Clause clause = make::numeric("capped", metric, Aggregate::sequence_mean, make::max(max));
  clause.clip = clip;
  return clause;
}

schema::Clause tail(Metric metric, double max) {
  schema::Clause clause = make::numeric("tail", metric, Aggregate::p97, make::max(max));
  clause.over = schema::QuantileOver::sequences;
  return clause;
}

/// `bad` sequences of tv 0.9 among `count` of about 0.01.
gpu::MeasurementTable table(std::size_t count, std::size_t bad) {
  auto made = make::table();
  for (std::size_t i = 0; i < count; ++i)
    make::append(
        made,
        {.rows = 4, .tv = i < bad ? 0.9 : 0.005 + 0.01 * static_cast<double>(i % 11) / 10, .slices = {}});
  return made;
}

StageReport evaluate(std::vector<schema::Clause> clauses, const gpu::MeasurementTable& table) {
  auto contract = make::contract();
  contract.clauses = std::move(clauses);
  StageInputs inputs;
  inputs.alpha = 0.05;
  inputs.seed = 1;
  auto report = evaluate_offline_numeric(contract, table, inputs);
  for (const auto& verdict : report.clauses) {
    const auto follows = schema::rederive(verdict);
    REQUIRE(follows.has_value());
    CHECK(*follows == verdict.verdict);
  }
  return report;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a capped mean passes exactly and says what the cap leaves out") {
  const auto report = evaluate({capped(Metric::tv, 0.25, 0.02)}, table(130, 0));
  const auto& verdict = report.clauses.at(0);
  CAPTURE(verdict.message);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.method == "betting, cap 0.99");
  CHECK_FALSE(verdict.approximate);
  // 1 − 0.05^{1/130}
  const double share = 1 - std::pow(0.05, 1 / 130.0);
  CHECK(verdict.details.at("above_clip") == 0);
  CHECK(verdict.details.at("above_clip_upper") == doctest::Approx(share).epsilon(1e-9));
  CHECK(verdict.details.at("mean_with_share_at_maximum") ==
        doctest::Approx(*verdict.upper + share * 0.75).epsilon(1e-9));
  CHECK(contains(verdict.message,
                 "No sequence lies above the clip of 0.25, so that with 95% confidence at most "
                 "2.278% do; were they all at the largest value of 1"));
  CHECK_FALSE(verdict.details.contains("certified_mean"));
}

TEST_CASE("sequences above the clip count as the clip, and are counted") {
  const auto report = evaluate({capped(Metric::tv, 0.25, 0.05)}, table(200, 3));
  const auto& verdict = report.clauses.at(0);
  CHECK(*verdict.estimate == doctest::Approx((3 * 0.25 + 197 * 0.01) / 200).epsilon(0.01));
  CHECK(verdict.details.at("above_clip") == 3);
  CHECK(verdict.details.at("above_clip_upper") > 3.0 / 200);
  CHECK(contains(verdict.message, "3 of 200 sequences lie above the clip of 0.25"));
}

TEST_CASE("a cap and its quantile clause together certify a mean where both pass") {
  const auto both = evaluate({capped(Metric::tv, 0.25, 0.02), tail(Metric::tv, 0.25)}, table(130, 0));
  REQUIRE(both.clauses.at(0).verdict == Verdict::pass);
  REQUIRE(both.clauses.at(1).verdict == Verdict::pass);
  CHECK(both.clauses[1].method == "exact binomial");
  // 0.02 + 0.03·(1 − 0.25)
  CHECK(both.clauses[0].details.at("certified_mean") == doctest::Approx(0.0425));
  CHECK(contains(both.clauses[0].message,
                 "numerical.tail passes too: together they certify a mean of at most 0.0425"));
  // At 90 sequences none above the limit is no proof of 3%: ln(1/0.05)/ln(1/0.97) = 98.4.
  const auto few = evaluate({capped(Metric::tv, 0.25, 0.05), tail(Metric::tv, 0.25)}, table(90, 0));
  REQUIRE(few.clauses.at(0).verdict == Verdict::pass);
  CHECK(few.clauses.at(1).verdict == Verdict::inconclusive);
  CHECK_FALSE(few.clauses[0].details.contains("certified_mean"));
  CHECK(contains(few.clauses[0].message, "numerical.tail does not pass here"));
}

TEST_CASE("a quantile over sequences counts sequences by their means and needs no counted rows") {
  const auto contract_of = [](const schema::Clause& clause) {
    auto contract = make::contract();
    contract.clauses = {clause};
    return contract;
  };
  CHECK(required_thresholds(contract_of(tail(Metric::tv, 0.25))).empty());
  auto made = table(200, 1);
  // Half of the rows of a fifth of the sequences are beyond, and their means are not.
  for (std::size_t i = 100; i < 140; ++i) {
    auto& tv = made.sequences[i].metrics[make::at(Metric::tv)];
    tv = make::constant(2, 0.3);
    tv.add(0.0);
    tv.add(0.0);
  }
  const auto verdict = evaluate({tail(Metric::tv, 0.25)}, made).clauses.at(0);
  CAPTURE(verdict.message);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(*verdict.estimate == doctest::Approx(1 / 200.0));
  CHECK(verdict.n == 200);
  CHECK(contains(verdict.message, "the share of sequences with a mean tv over 0.25 (clause: p97 tv)"));
  CHECK(evaluate({tail(Metric::tv, 0.25)}, table(200, 20)).clauses.at(0).verdict == Verdict::violated);
}

TEST_CASE("an unbounded metric is capped exactly, and nothing is said of a largest value") {
  const auto report =
      evaluate({capped(Metric::logit_span, 1, 0.2), tail(Metric::logit_span, 1)}, table(200, 0));
  const auto& verdict = report.clauses.at(0);
  CAPTURE(verdict.message);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK_FALSE(verdict.approximate);
  CHECK_FALSE(verdict.details.contains("mean_with_share_at_maximum"));
  CHECK(contains(verdict.message, "logit_span has no largest value: the cap bounds nothing above it"));
  CHECK(contains(verdict.message,
                 "numerical.tail passes too: at most 3% of the sequences lie above the clip."));
}

TEST_CASE(
    "an unbounded mean under a contract that asks for exact means is inconclusive and names both choices") {
  const auto clause = make::numeric("kl", Metric::kl_inf_train, Aggregate::sequence_mean, make::max(0.02));
  const auto verdict = evaluate({clause}, table(400, 0)).clauses.at(0);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(contains(verdict.message, "the contract needs a clip or confidence.means: approximate"));
}

TEST_CASE("an exact mean that stays open says what would decide it") {
  const auto clause = make::numeric("tv", Metric::tv, Aggregate::sequence_mean, make::max(0.02));
  const auto verdict = evaluate({clause}, table(130, 0)).clauses.at(0);
  CAPTURE(verdict.message);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(verdict.details.at("clip_that_would_do") == 0.25);
  CHECK(verdict.details.at("needed_clusters") > 200);
  CHECK(contains(verdict.message, "sequences like these would prove it exactly; these do with clip: 0.25"));
  CHECK(contains(verdict.message, "What would decide it: about "));
  CHECK_FALSE(contains(verdict.message, "approximate"));
  // At 295 sequences Gaffke's bound passes (p = 0.0497) and betting does not (0.0512).
  const auto close = evaluate({clause}, table(295, 0)).clauses.at(0);
  CHECK(close.verdict == Verdict::inconclusive);
  CHECK(contains(close.message, "The approximate method would pass: about "));
  CHECK(contains(close.message, "confidence.means: approximate"));
  // At the limit itself there is no such word.
  auto at_limit = make::table();
  for (int i = 0; i < 130; ++i)
    make::append(at_limit, {.rows = 4, .tv = 0.02 + 0.002 * (i % 2 ? 1 : -1), .slices = {}});
  CHECK_FALSE(contains(evaluate({clause}, at_limit).clauses.at(0).message, "approximate"));
}

TEST_CASE("a contract that asks for approximate means gets them, recorded and with the exact limits") {
  auto contract = make::contract();
  contract.confidence.means = schema::Means::approximate;
  contract.clauses = {make::numeric("tv", Metric::tv, Aggregate::sequence_mean, make::max(0.02)),
                      make::numeric("kl", Metric::kl_inf_train, Aggregate::sequence_mean, make::max(0.02))};
  StageInputs inputs;
  inputs.alpha = 0.05;
  const auto report = evaluate_offline_numeric(contract, table(320, 0), inputs);
  REQUIRE(report.clauses.size() == 2);
  CHECK(report.clauses[0].method == "Gaffke's bound (validity conjectured)");
  CHECK(report.clauses[1].method == "cluster bootstrap-t");
  for (const auto& verdict : report.clauses) {
    CAPTURE(verdict.message);
    CHECK(verdict.verdict == Verdict::pass);
    CHECK(verdict.approximate);
    CHECK(verdict.rules == schema::kCurrentRules);
  }
  CHECK(report.clauses[0].details.at("exact_upper") > *report.clauses[0].upper);
  CHECK_FALSE(report.clauses[0].details.contains("replicates"));
  CHECK(contains(report.clauses[0].message, "This is approximate; the exact limits are"));
  CHECK(contains(report.clauses[1].message, "This is approximate."));
}

TEST_CASE("clusters with a sequence above the clip bound the share of sequences above it") {
  auto made = table(300, 6);
  for (std::size_t i = 0; i < made.infos.size(); ++i) made.infos[i].cluster = "p" + std::to_string(i / 3);
  const auto verdict = evaluate({capped(Metric::tv, 0.25, 0.05)}, made).clauses.at(0);
  CHECK(verdict.clusters == 100);
  CHECK(verdict.details.at("above_clip") == 6);
  // Two of 100 clusters: Clopper–Pearson at 95% is 6.16%.
  CHECK(verdict.details.at("above_clip_upper") == doctest::Approx(0.0616).epsilon(0.01));
}
