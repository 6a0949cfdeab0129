#include "stages/slices/against_rest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "schema/verdict_rule.hpp"
#include "stages/slices/slice_search.hpp"
#include "stages/statistical_slice.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::ClauseVerdict;
using schema::Metric;
using schema::SliceRole;
using schema::SliceWhere;
using schema::Verdict;

namespace {

const SliceWhere kFrench{{"language", "fr"}};

/// 1,000 sequences in four languages and five domains, tv 0.005 to 0.015; 60 of them are French and have
/// `times` as much.
gpu::MeasurementTable corpus(double times, std::uint64_t seed = 5, std::size_t per_cluster = 0) {
  Random random(seed);
  auto table = make::table({{Metric::tv, 0.02, true}});
  for (std::size_t i = 0; i < 1'000; ++i) {
    const bool french = i % 100 < 6;
    const double tv = 0.005 + 0.01 * random.uniform();
    make::append(table, {10,
                         french ? times * tv : tv,
                         {{"language", french ? "fr" : "l" + std::to_string(random.below(3))},
                          {"domain", "d" + std::to_string(random.below(5))}}});
    if (per_cluster > 0) table.infos.back().cluster = "c" + std::to_string(i / per_cluster);
  }
  return table;
}

/// 2,000 sequences, of which 70% have a tv of exactly zero, in each slice the same share; the others have tv
/// 0.005 to 0.015, and the 40 French ones `times` as much.
gpu::MeasurementTable mostly_equal(double times) {
  Random random(6);
  auto table = make::table({{Metric::tv, 0.02, true}});
  for (std::size_t i = 0; i < 2'000; ++i) {
    const bool french = i % 50 == 0;
    const double tv = (i / 50 + i % 50) % 10 < 3 ? 0.005 + 0.01 * random.uniform() : 0;
    make::append(table, {10,
                         french ? times * tv : tv,
                         {{"language", french ? "fr" : "l" + std::to_string(random.below(3))},
                          {"domain", "d" + std::to_string(random.below(5))}}});
  }
  return table;
}

/// 2,000 sequences with a tv of 0.01 or exactly zero; one in five is above zero, and of the 40 French ones
/// three in five.
gpu::MeasurementTable often_above_zero() {
  Random random(7);
  auto table = make::table({{Metric::tv, 0.02, true}});
  for (std::size_t i = 0; i < 2'000; ++i) {
    const bool french = i % 50 == 0;
    const std::size_t fifth = (i / 50 + i % 50) % 5;
    make::append(table, {10,
                         fifth < (french ? 3U : 1U) ? 0.01 : 0,
                         {{"language", french ? "fr" : "l" + std::to_string(random.below(3))},
                          {"domain", "d" + std::to_string(random.below(5))}}});
  }
  return table;
}

schema::Contract contract(std::optional<double> max_ratio = {}) {
  auto result = make::contract();
  result.slices.dimensions = {"language", "domain"};
  result.slices.min_sequences = 200;
  result.slices.discover = schema::Slices::Discover{2, false, max_ratio};
  result.clauses = {make::slice_clause("tv", schema::MetricSubject{Metric::tv, Aggregate::sequence_mean},
                                       make::max(0.1), {})};
  return result;
}

StageReport evaluate(const schema::Contract& c, const gpu::MeasurementTable& table) {
  StageInputs inputs;
  inputs.seed = 3;
  return evaluate_statistical_slice(c, table, inputs);
}

std::vector<ClauseVerdict> findings(const StageReport& report) {
  std::vector<ClauseVerdict> found;
  std::ranges::copy_if(report.clauses, std::back_inserter(found), [](const ClauseVerdict& verdict) {
    return verdict.limit_kind == schema::kRatioToRest;
  });
  return found;
}

}  // namespace

TEST_CASE("a slice of 6% that drifts more than the rest is named with its factor, far within the limit") {
  const StageReport report = evaluate(contract(), corpus(1.5));
  const auto found = findings(report);
  REQUIRE(found.size() == 1);
  const ClauseVerdict& verdict = found[0];
  CHECK(verdict.where == kFrench);
  CHECK(verdict.role == SliceRole::discovered);
  CHECK(verdict.verdict == Verdict::violated);
  CHECK(verdict.severity == schema::Severity::soft);
  CHECK(verdict.clusters == 60);
  CHECK(*verdict.estimate == doctest::Approx(1.5).epsilon(0.1));
  CHECK(*verdict.lower > 1.1);
  CHECK(*verdict.lower < *verdict.estimate);
  CHECK(verdict.details.at("rest_clusters") == 940);
  CHECK(*verdict.p_value <= verdict.alpha);
  CHECK(verdict.message.find("language=fr") != std::string::npos);
  CHECK(verdict.message.find("does not block") != std::string::npos);
  CHECK(report.verdict == Verdict::pass);
  CHECK(schema::rederive(verdict).value() == Verdict::violated);
  // It has no limit to be beyond, so that it has no place among the excesses.
  CHECK(std::ranges::none_of(report.ranking, [](const SliceRank& rank) { return rank.where == kFrench; }));
}

TEST_CASE("slices that are alike are not told apart from the rest") {
  const StageReport report = evaluate(contract(1.5), corpus(1));
  CHECK(findings(report).empty());
  CHECK(report.verdict == Verdict::pass);
  CHECK(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.find("0 drift more than the rest") != std::string::npos;
  }));
}

TEST_CASE("a slice over max_ratio times the rest blocks, one that is over it only by its estimate does not") {
  const StageReport blocked = evaluate(contract(2), corpus(3));
  const auto found = findings(blocked);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == schema::Severity::hard);
  CHECK(found[0].threshold == 2);
  CHECK(*found[0].lower > 2);
  CHECK(found[0].message.find("beyond the max_ratio of 2") != std::string::npos);
  CHECK(blocked.verdict == Verdict::violated);

  const StageReport reported = evaluate(contract(2), corpus(2.02));
  const auto soft = findings(reported);
  REQUIRE(soft.size() == 1);
  CHECK(soft[0].severity == schema::Severity::soft);
  CHECK(soft[0].threshold == 1);
  CHECK(*soft[0].lower < 2);
  CHECK(reported.verdict == Verdict::pass);
}

TEST_CASE("the severity is what the rules give to such a verdict under the contract") {
  for (const std::optional<double> max_ratio : {std::optional<double>{}, std::optional<double>{2}}) {
    const schema::Contract c = contract(max_ratio);
    for (const ClauseVerdict& verdict : findings(evaluate(c, corpus(3)))) {
      const auto severity =
          schema::find_rules(verdict.rules)
              ->severity(verdict, schema::Severity::hard, schema::DiscoveryTerms{false, max_ratio});
      REQUIRE(severity.has_value());
      CHECK(*severity == verdict.severity);
    }
  }
}

TEST_CASE("on a slice that the clause names as critical the finding is a sentence of that verdict") {
  schema::Contract c = contract(2);
  c.slices.critical = {kFrench};
  c.slices.min_sequences = 10;
  c.clauses[0].slices = {SliceRole::critical};
  const StageReport report = evaluate(c, corpus(3));
  CHECK(findings(report).empty());
  const auto french = std::ranges::find(report.clauses, SliceRole::critical, &ClauseVerdict::role);
  REQUIRE(french != report.clauses.end());
  CHECK(french->details.at("ratio_to_rest") == doctest::Approx(3).epsilon(0.1));
  CHECK(french->details.at("rest_p_value") <= french->alpha);
  CHECK(french->message.find("Against the rest") != std::string::npos);
}

TEST_CASE("on a corpus of 70% exact zeros a 2% slice at 3 times is found by the ranks of what is not zero") {
  const auto found = findings(evaluate(contract(), mostly_equal(3)));
  REQUIRE(found.size() == 1);
  const ClauseVerdict& verdict = found[0];
  CHECK(verdict.where == kFrench);
  CHECK(verdict.method == "ranks of the figures above zero against the rest of the corpus, Holm");
  CHECK(verdict.severity == schema::Severity::soft);
  CHECK(*verdict.estimate == doctest::Approx(3).epsilon(0.15));
  CHECK(*verdict.lower > 1.5);
  CHECK(*verdict.lower < *verdict.estimate);
  CHECK(verdict.details.at("comparisons") == 3);
  CHECK(verdict.details.at("slice_above_zero") == doctest::Approx(0.3));
  CHECK(verdict.details.at("rest_above_zero") == doctest::Approx(0.3));
  CHECK(verdict.details.at("superiority_above_zero") == doctest::Approx(1));
  // Neither the ranks of all figures nor the share above zero would have found it.
  const double slices = verdict.details.at("slices_compared");
  CHECK(slices * verdict.details.at("p_ranks") > verdict.alpha);
  CHECK(slices * verdict.details.at("p_share_above_zero") > verdict.alpha);
  CHECK(slices * 3 * verdict.details.at("p_unadjusted") >= *verdict.p_value);
  CHECK(verdict.message.find("30% of the sequences here are above zero and 30% of the rest") !=
        std::string::npos);
  CHECK(verdict.message.find("each in 3 ways") != std::string::npos);
  CHECK(schema::rederive(verdict).value() == Verdict::violated);
}

TEST_CASE("a slice that differs from zero three times as often is found, and no ratio is claimed for that") {
  const schema::Contract c = contract(2);
  const StageReport report = evaluate(c, often_above_zero());
  const auto found = findings(report);
  REQUIRE(found.size() == 1);
  const ClauseVerdict& verdict = found[0];
  CHECK(verdict.where == kFrench);
  CHECK(verdict.method == "share above zero against the rest of the corpus, Fisher, Holm");
  CHECK(*verdict.estimate == doctest::Approx(3).epsilon(0.1));
  CHECK_FALSE(verdict.lower.has_value());
  CHECK(verdict.threshold == 1);
  CHECK(verdict.severity == schema::Severity::soft);
  CHECK(report.verdict == Verdict::pass);
  // The figures above zero are all alike, so that there is nothing to rank among them.
  CHECK(verdict.details.at("comparisons") == 2);
  CHECK_FALSE(verdict.details.contains("p_ranks_above_zero"));
  CHECK(verdict.details.at("p_share_above_zero") < verdict.details.at("p_ranks"));
  CHECK(verdict.message.find("60% of the sequences here are above zero and 20% of the rest") !=
        std::string::npos);
  CHECK(schema::find_rules(verdict.rules)
            ->severity(verdict, schema::Severity::hard, schema::DiscoveryTerms{false, 2.0}) ==
        schema::Severity::soft);
}

TEST_CASE("a max_ratio of 1 gives every finding the clause's severity, as the rules want it") {
  const auto found = findings(evaluate(contract(1), often_above_zero()));
  REQUIRE(found.size() == 1);
  CHECK(found[0].threshold == 1);
  CHECK(found[0].severity == schema::Severity::hard);
  CHECK(schema::find_rules(found[0].rules)
            ->severity(found[0], schema::Severity::hard, schema::DiscoveryTerms{false, 1.0}) ==
        schema::Severity::hard);
}

TEST_CASE("max_ratio is held against the figures above zero as well") {
  const StageReport report = evaluate(contract(1.5), mostly_equal(6));
  const auto found = findings(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].threshold == 1.5);
  CHECK(found[0].severity == schema::Severity::hard);
  CHECK(*found[0].lower > 1.5);
  CHECK(found[0].details.at("p_ranks") > 0.001);
  CHECK(report.verdict == Verdict::violated);
}

TEST_CASE("equal data never give a finding, wherever its zeros are") {
  CHECK(findings(evaluate(contract(1.5), mostly_equal(1))).empty());
  CHECK(findings(evaluate(contract(1.5), mostly_equal(0))).empty());
  auto zeros = make::table();
  for (std::size_t i = 0; i < 1'000; ++i) {
    make::append(zeros, {10, 0, {{"language", i % 10 == 0 ? "fr" : "en"}, {"domain", "d0"}}});
  }
  CHECK(findings(evaluate(contract(1.5), zeros)).empty());
  // Ties of a figure other than zero are compared by ranks alone, and are no difference either.
  auto ties = make::table();
  for (std::size_t i = 0; i < 1'000; ++i) {
    make::append(ties, {10, 0.01, {{"language", i % 10 == 0 ? "fr" : "en"}, {"domain", "d0"}}});
  }
  CHECK(findings(evaluate(contract(1.5), ties)).empty());
}

TEST_CASE("zeros are compared by themselves where they are many, and not where too little is left of them") {
  std::vector<double> figures(1'000, 0.01);
  CHECK(choose_comparisons(figures).count() == 1);
  std::fill_n(figures.begin(), 99, 0.0);
  CHECK(choose_comparisons(figures).count() == 1);
  figures[99] = 0;
  CHECK(choose_comparisons(figures).count() == 2);
  figures[999] = 0.02;
  CHECK(choose_comparisons(figures).count() == 3);
  std::fill_n(figures.begin(), 991, 0.0);
  CHECK(choose_comparisons(figures).count() == 1);
  CHECK(choose_comparisons({}).count() == 1);
}

TEST_CASE("rarer but larger figures are not taken for more drift, and few above zero are not ranked") {
  const auto sides_of = [](std::vector<double> inside, std::vector<double> outside) {
    Sides sides;
    for (const double value : inside) sides.all_inside.sum += value;
    for (const double value : outside) sides.all_outside.sum += value;
    sides.all_inside.n = static_cast<double>(inside.size());
    sides.all_outside.n = static_cast<double>(outside.size());
    sides.inside = std::move(inside);
    sides.outside = std::move(outside);
    return sides;
  };
  std::vector<double> outside(1'000, 0.0);
  for (std::size_t i = 0; i < 500; ++i) outside[i] = 1 + static_cast<double>(i) / 1'000;
  std::vector<double> inside(200, 0.0);
  std::fill_n(inside.begin(), 20, 2.0);
  const Comparisons all{true, true};
  CHECK(compare_sides(sides_of(inside, outside), all).p_value == 1);
  std::fill_n(inside.begin(), 20, 20.0);
  CHECK(compare_sides(sides_of(inside, outside), all).by == RestMethod::ranks_above_zero);
  CHECK(compare_sides(sides_of(inside, outside), all).p_value < 1e-3);
  std::fill_n(inside.begin(), 11, 0.0);
  CHECK(compare_sides(sides_of(inside, outside), all).above_zero.p_value == 1);
}

TEST_CASE("two broken slices that overlap nothing of each other are both named, and parts of them are not") {
  Random random(8);
  auto table = make::table();
  for (std::size_t i = 0; i < 2'000; ++i) {
    const std::size_t language = random.below(8);
    const std::size_t domain = random.below(5);
    const bool broken = language == 0 || (language == 3 && domain == 2);
    make::append(table,
                 {10,
                  (0.005 + 0.01 * random.uniform()) * (broken ? 3 : 1),
                  {{"language", "l" + std::to_string(language)}, {"domain", "d" + std::to_string(domain)}}});
  }
  const auto found = findings(evaluate(contract(), table));
  REQUIRE(found.size() == 2);
  CHECK(found[0].where == SliceWhere{{"language", "l0"}});
  CHECK(found[1].where == SliceWhere{{"domain", "d2"}, {"language", "l3"}});
}

TEST_CASE("a cluster that has sequences on both sides counts once, with those inside") {
  const auto found = findings(evaluate(contract(), corpus(3, 5, 2)));
  REQUIRE(found.size() == 1);
  CHECK(found[0].n == 60);
  CHECK(found[0].clusters == 30);
  CHECK(found[0].details.at("rest_clusters") == 470);
}

TEST_CASE("quantiles, unbounded means and lower limits are compared as well") {
  schema::Contract c = contract();
  schema::Limits least;
  least.min = 0.5;
  c.clauses = {
      make::slice_clause("p99", schema::MetricSubject{Metric::tv, Aggregate::p99}, make::max(0.02), {}),
      make::slice_clause("kl", schema::MetricSubject{Metric::kl_inf_train, Aggregate::mean}, make::max(0.1),
                         {}),
      make::slice_clause("overlap", schema::MetricSubject{Metric::topk_overlap, Aggregate::mean}, least, {})};
  auto table = corpus(3);
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    const double tv = table.sequences[i].metrics[make::at(Metric::tv)].mean();
    table.sequences[i].metrics[make::at(Metric::topk_overlap)] = make::constant(10, 1 - tv);
  }
  const auto found = findings(evaluate(c, table));
  REQUIRE(found.size() == 3);
  CHECK(found[0].clause == "statistical.p99");
  CHECK(std::isinf(*found[0].lower) == false);
  CHECK(found[1].clause == "statistical.kl");
  CHECK(*found[1].estimate == doctest::Approx(9).epsilon(0.1));
  CHECK(found[2].clause == "statistical.overlap");
  CHECK_FALSE(found[2].lower.has_value());
  for (const ClauseVerdict& verdict : found) CHECK(verdict.where == kFrench);
}

TEST_CASE("nothing is compared where the contract does not search, or a slice has fewer than ten sequences") {
  schema::Contract c = contract();
  c.slices.discover.reset();
  CHECK(findings(evaluate(c, corpus(3))).empty());

  auto table = corpus(1);
  for (std::size_t i = 0; i < 9; ++i) {
    make::append(table, {10, 0.05, {{"language", "xx"}, {"domain", "d0"}}});
  }
  CHECK(findings(evaluate(contract(), table)).empty());
  make::append(table, {10, 0.05, {{"language", "xx"}, {"domain", "d0"}}});
  const auto found = findings(evaluate(contract(), table));
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == SliceWhere{{"language", "xx"}});
}

TEST_CASE("every slice of the corpus is listed, combinations included, the simpler ones first") {
  const auto all = every_slice(corpus(1), contract().slices);
  REQUIRE(all.size() == 4 + 5 + 20);
  CHECK(all[0].size() == 1);
  CHECK(all[9].size() == 2);
  CHECK(std::ranges::find(all, SliceWhere{{"domain", "d4"}, {"language", "fr"}}) != all.end());
  schema::Slices plain = contract().slices;
  plain.discover.reset();
  CHECK(every_slice(corpus(1), plain).size() == 29);
}
