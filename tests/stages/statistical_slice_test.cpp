#include "stages/statistical_slice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

#include "schema/verdict_rule.hpp"
#include "stages/slices/slice_search.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::SliceRole;
using schema::Verdict;

namespace {

constexpr std::size_t kSequences = 2'000;

/// 13% of the sequences are German; their tv is `german`, that of the rest 0.01.
gpu::MeasurementTable corpus(double german, std::uint64_t seed) {
  Random random(seed);
  auto table = make::table();
  for (std::size_t i = 0; i < kSequences; ++i) {
    const bool is_german = i % 100 < 13;
    const double centre = is_german ? german : 0.01;
    make::append(table, {10, centre * (0.5 + random.uniform()), {{"language", is_german ? "de" : "en"}}});
  }
  return table;
}

schema::Contract contract(std::vector<SliceRole> roles) {
  auto result = make::contract();
  result.slices.critical = {{{"language", "de"}}};
  if (std::ranges::find(roles, SliceRole::critical) == roles.end()) result.slices.critical.clear();
  result.clauses = {make::slice_clause("tv", schema::MetricSubject{Metric::tv, Aggregate::sequence_mean},
                                       make::max(0.02), std::move(roles))};
  result.clauses[0].clip = 0.25;
  return result;
}

StageReport evaluate(const schema::Contract& c, const gpu::MeasurementTable& table) {
  StageInputs inputs;
  inputs.seed = 3;
  return evaluate_statistical_slice(c, table, inputs);
}

}  // namespace

TEST_CASE("a critical slice of 13% of rows that is broken while the corpus mean holds is caught and named") {
  const auto table = corpus(0.06, 1);
  const StageReport report = evaluate(contract({SliceRole::critical, SliceRole::monitored}), table);
  CHECK(report.verdict == Verdict::violated);
  const auto german = std::ranges::find(report.clauses, SliceRole::critical, &schema::ClauseVerdict::role);
  REQUIRE(german != report.clauses.end());
  CHECK(german->verdict == Verdict::violated);
  CHECK(german->message.find("language=de") != std::string::npos);
  CHECK(german->message.find("the average hides language=de") != std::string::npos);
  CHECK(german->details.at("corpus_estimate") < 0.02);
  REQUIRE(!report.ranking.empty());
  CHECK(report.ranking[0].where == schema::SliceWhere{{"language", "de"}});
  CHECK(report.ranking[0].hidden_by_mean);
  // The rest of the corpus is fine and says so.
  const auto english = std::ranges::find(report.clauses, SliceRole::monitored, &schema::ClauseVerdict::role);
  REQUIRE(english != report.clauses.end());
  CHECK(english->verdict == Verdict::pass);
}

TEST_CASE("the same slice is caught when it is only monitored") {
  const StageReport report = evaluate(contract({SliceRole::monitored}), corpus(0.06, 1));
  CHECK(report.verdict == Verdict::violated);
}

TEST_CASE("the same corpus unbroken passes") {
  CHECK(evaluate(contract({SliceRole::critical, SliceRole::monitored}), corpus(0.01, 1)).verdict ==
        Verdict::pass);
}

TEST_CASE("the mean over the broken corpus passes by itself") {
  CHECK(evaluate(contract({}), corpus(0.06, 1)).verdict == Verdict::pass);
}

namespace {

/// The corpus above with a second attribute that has nothing to do with the first.
gpu::MeasurementTable searched_corpus(double german, std::uint64_t seed) {
  auto table = corpus(german, seed);
  for (std::size_t i = 0; i < table.infos.size(); ++i) {
    table.infos[i].slices["domain"] = i / 100 % 2 == 0 ? "code" : "chat";
  }
  return table;
}

schema::Contract searching(std::vector<SliceRole> roles, bool block) {
  auto result = contract(std::move(roles));
  result.slices.dimensions = {"language", "domain"};
  result.slices.discover = schema::Slices::Discover{2, block, {}};
  return result;
}

/// What was found beyond the limit; what drifts more than the rest is against_rest_test.cpp's.
std::vector<schema::ClauseVerdict> discovered(const StageReport& report) {
  std::vector<schema::ClauseVerdict> found;
  std::ranges::copy_if(report.clauses, std::back_inserter(found), [](const schema::ClauseVerdict& verdict) {
    return verdict.role == SliceRole::discovered && verdict.limit_kind != schema::kRatioToRest;
  });
  return found;
}

}  // namespace

TEST_CASE("a slice of 13% of rows that nobody named is found by the search and blocks where it may") {
  const auto table = searched_corpus(0.06, 1);
  const StageReport report = evaluate(searching({}, true), table);
  CHECK(report.verdict == Verdict::violated);
  CHECK(report.clauses.at(0).role == SliceRole::corpus);
  CHECK(report.clauses.at(0).verdict == Verdict::pass);
  const auto found = discovered(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == schema::SliceWhere{{"language", "de"}});
  CHECK(found[0].verdict == Verdict::violated);
  CHECK(found[0].severity == schema::Severity::hard);
  CHECK(*found[0].e_value >= found[0].details.at("e_harm_needed"));
  CHECK(*found[0].lower > 0.02);
  CHECK(found[0].message.find("language=de") != std::string::npos);
  CHECK(found[0].message.find("the average hides language=de") != std::string::npos);
  REQUIRE(!report.ranking.empty());
  CHECK(report.ranking[0].role == SliceRole::discovered);
  CHECK(report.ranking[0].hidden_by_mean);
  CHECK(report.ranking[0].verdict == Verdict::violated);
  CHECK(report.ranking[0].lower == found[0].lower);
}

TEST_CASE("what the search finds is reported and does not block unless the contract says so") {
  const StageReport report = evaluate(searching({}, false), searched_corpus(0.06, 1));
  CHECK(report.verdict == Verdict::pass);
  const auto found = discovered(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].verdict == Verdict::violated);
  CHECK(found[0].severity == schema::Severity::soft);
  CHECK(found[0].message.find("does not block") != std::string::npos);
}

TEST_CASE("a broken slice that is declared critical is caught there, and the search has nothing to add") {
  const StageReport report = evaluate(searching({SliceRole::critical}, true), searched_corpus(0.06, 1));
  CHECK(report.verdict == Verdict::violated);
  const auto german = std::ranges::find(report.clauses, SliceRole::critical, &schema::ClauseVerdict::role);
  REQUIRE(german != report.clauses.end());
  CHECK(german->verdict == Verdict::violated);
  CHECK(german->message.find("the average hides language=de") != std::string::npos);
  for (const auto& verdict : discovered(report)) CHECK(verdict.verdict == Verdict::pass);
}

TEST_CASE("the same corpus unbroken passes the search too, which names the worst that it saw") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const StageReport report = evaluate(searching({}, true), searched_corpus(0.01, seed));
    CHECK(report.verdict == Verdict::pass);
    const auto found = discovered(report);
    REQUIRE(found.size() == 1);
    CHECK(found[0].verdict == Verdict::pass);
    CHECK(std::ranges::any_of(report.notes, [](const std::string& note) {
      return note.find("0 beyond their limit") != std::string::npos;
    }));
  }
}

TEST_CASE("a combination is found whose attributes are fine one by one") {
  auto table = make::table();
  Random random(4);
  for (std::size_t i = 0; i < 4'000; ++i) {
    const bool german = i % 4 == 0;
    const bool code = i / 4 % 4 == 0;
    make::append(table, {10, (german && code ? 0.04 : 0.008) * (0.5 + random.uniform()), {}});
    table.infos.back().slices = {{"language", german ? "de" : "en"}, {"domain", code ? "code" : "chat"}};
  }
  auto wanted = searching({SliceRole::monitored}, true);
  wanted.slices.critical.clear();
  const StageReport report = evaluate(wanted, table);
  for (const auto& verdict : report.clauses) {
    if (verdict.role == SliceRole::monitored) CHECK(verdict.verdict == Verdict::pass);
  }
  const auto found = discovered(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == schema::SliceWhere{{"domain", "code"}, {"language", "de"}});
  CHECK(found[0].verdict == Verdict::violated);
}

TEST_CASE("two broken slices are found one after the other, the worse first") {
  auto table = make::table();
  Random random(4);
  for (std::size_t i = 0; i < 4'000; ++i) {
    const std::string language = i % 10 == 0 ? "de" : (i % 10 == 1 ? "fr" : "en");
    const double centre = language == "de" ? 0.06 : (language == "fr" ? 0.04 : 0.01);
    make::append(table, {10, centre * (0.5 + random.uniform()), {}});
    table.infos.back().slices = {{"language", language}, {"domain", i / 10 % 2 == 0 ? "code" : "chat"}};
  }
  const auto found = discovered(evaluate(searching({}, true), table));
  REQUIRE(found.size() == 2);
  CHECK(found[0].where == schema::SliceWhere{{"language", "de"}});
  CHECK(found[1].where == schema::SliceWhere{{"language", "fr"}});
  CHECK(found[1].verdict == Verdict::violated);
}

TEST_CASE("a combination with the same sequences as a simpler slice is not repeated") {
  auto table = searched_corpus(0.06, 1);
  for (auto& info : table.infos) info.slices["domain"] = info.slices.at("language") == "de" ? "code" : "chat";
  // domain=code, language=de and both together are the same sequences: the first in order is named, once.
  const auto found = discovered(evaluate(searching({}, true), table));
  REQUIRE(found.size() == 1);
  CHECK(found[0].where.size() == 1);
}

TEST_CASE("sequences without an attribute are found as a slice of their own") {
  auto table = searched_corpus(0.06, 1);
  for (auto& info : table.infos) {
    if (info.slices.at("language") == "de") info.slices.erase("language");
  }
  const auto found = discovered(evaluate(searching({}, true), table));
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == schema::SliceWhere{{"language", "(missing)"}});
}

TEST_CASE("a found slice that is too small says how many sequences are missing") {
  auto table = make::table();
  for (int i = 0; i < 1'000; ++i) {
    make::append(table, {10, (i % 25 == 0 ? 0.15 : 0.01) + 0.0001 * (i % 7), {}});
    table.infos.back().slices = {{"language", i % 25 == 0 ? "de" : "en"}};
  }
  const StageReport report = evaluate(searching({}, true), table);
  const auto found = discovered(report);
  const auto small =
      std::ranges::find(found, schema::SliceWhere{{"language", "de"}}, &schema::ClauseVerdict::where);
  REQUIRE(small != found.end());
  CHECK(small->verdict == Verdict::inconclusive);
  // 40 sequences, and 100 are wanted in each half.
  CHECK(small->details.at("missing_sequences") >= 160);
  CHECK(report.verdict == Verdict::pass);
}

TEST_CASE("quantiles and outcomes are searched, other figures are named as not searched") {
  auto wanted = searching({}, true);
  schema::Limits margin;
  margin.non_inferiority_margin = 0.03;
  wanted.clauses = {
      make::slice_clause("tail", schema::MetricSubject{Metric::tv, Aggregate::p90}, make::max(0.03), {}),
      make::slice_clause("task", schema::OutcomeSubject{"correct"}, margin, {}),
      make::slice_clause("kl", schema::MetricSubject{Metric::kl_inf_train, Aggregate::sequence_mean}, make::max(1),
                         {})};
  Random random(9);
  auto table = make::table({{Metric::tv, 0.03, true}});
  for (std::size_t i = 0; i < 3'000; ++i) {
    const bool german = i % 10 == 0;
    make::append(table, {10, (german ? 0.05 : 0.01) * (0.5 + random.uniform()), {}});
    auto& info = table.infos.back();
    info.slices = {{"language", german ? "de" : "en"}, {"domain", i % 3 == 0 ? "code" : "chat"}};
    info.correct_train = true;
    info.correct_inf = !german || i / 10 % 3 != 0;
  }
  const StageReport report = evaluate(wanted, table);
  for (const char* clause : {"statistical.tail", "statistical.task"}) {
    CAPTURE(clause);
    const auto found = discovered(report);
    const auto verdict = std::ranges::find(found, std::string(clause), &schema::ClauseVerdict::clause);
    REQUIRE(verdict != found.end());
    CHECK(verdict->where == schema::SliceWhere{{"language", "de"}});
    CHECK(verdict->verdict == Verdict::violated);
  }
  CHECK(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.find("Not searched for slices: statistical.kl") != std::string::npos;
  }));
}

TEST_CASE("the halves are the seed's and whole clusters stay together") {
  auto table = searched_corpus(0.06, 1);
  for (std::size_t i = 0; i < table.infos.size(); ++i) table.infos[i].cluster = "c" + std::to_string(i / 4);
  const SearchSpace one(table, {"language", "domain"}, 5);
  const SearchSpace same(table, {"language", "domain"}, 5);
  const SearchSpace other(table, {"language", "domain"}, 6);
  std::size_t searched = 0;
  bool differs = false;
  for (std::size_t i = 0; i < table.infos.size(); ++i) {
    CHECK(one.in_search_half(i) == same.in_search_half(i));
    CHECK(one.in_search_half(i) == one.in_search_half(i / 4 * 4));
    differs = differs || one.in_search_half(i) != other.in_search_half(i);
    searched += one.in_search_half(i) ? 1 : 0;
  }
  CHECK(differs);
  CHECK(searched == table.infos.size() / 2);
  CHECK(one.combinations(1).size() == 2);
  CHECK(one.combinations(2).size() == 3);
}

TEST_CASE("an attribute with as many values as an identifier is not searched and is named") {
  auto table = make::table();
  for (int i = 0; i < 1'200; ++i) make::append(table, {1, 0.01, {{"language", "l" + std::to_string(i)}}});
  auto wanted = searching({}, true);
  const StageReport report = evaluate(wanted, table);
  CHECK(discovered(report).empty());
  CHECK(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.find("over 1,000 values: language, domain") != std::string::npos;
  }));
}

TEST_CASE("a critical slice under min_sequences says how many are missing and blocks") {
  auto table = make::table();
  for (int i = 0; i < 300; ++i) {
    make::append(table, {10, 0.01 + 0.0001 * (i % 5), {{"language", i < 40 ? "de" : "en"}}});
  }
  const StageReport report = evaluate(contract({SliceRole::critical}), table);
  CHECK(report.verdict == Verdict::inconclusive);
  CHECK(report.clauses.at(0).details.at("missing_sequences") == 60);
}

TEST_CASE("a clause with a least size of slices of its own decides slices that the others leave alone") {
  auto table = make::table();
  for (int i = 0; i < 300; ++i) {
    make::append(table, {10, 0.002 + 0.0001 * (i % 5), {{"language", i < 90 ? "de" : "en"}}});
  }
  auto two = contract({SliceRole::critical});
  two.clauses.front().limits.max = 0.1;
  two.clauses.push_back(two.clauses.front());
  two.clauses.back().id = "tv-small";
  two.clauses.back().min_sequences = 90;
  const StageReport report = evaluate(two, table);
  REQUIRE(report.clauses.size() == 2);
  CHECK(report.clauses[0].details.at("missing_sequences") == 10);
  CHECK(report.clauses[0].message.find("min_sequences is 100") != std::string::npos);
  CHECK(report.clauses[1].verdict == Verdict::pass);
}

TEST_CASE("a monitored slice that is too small is listed and does not block") {
  auto table = make::table();
  for (int i = 0; i < 300; ++i) {
    make::append(table, {10, 0.01 + 0.0001 * (i % 5), {{"language", i < 40 ? "de" : "en"}}});
  }
  const StageReport report = evaluate(contract({SliceRole::monitored}), table);
  CHECK(report.verdict == Verdict::pass);
  CHECK(report.clauses.size() == 2);
}

TEST_CASE("a clause on monitored slices of a corpus that has none is an error and blocks") {
  auto table = make::table();
  for (int i = 0; i < 300; ++i) make::append(table, {10, 0.5, {}});
  const StageReport report = evaluate(contract({SliceRole::monitored}), table);
  CHECK(report.verdict == Verdict::error);
  REQUIRE(report.clauses.size() == 1);
  CHECK(report.clauses[0].role == SliceRole::corpus);
  CHECK(report.clauses[0].message.find("slices.dimensions") != std::string::npos);
}

TEST_CASE("a slice beyond what resampling can resolve in its family is an error, not a listed doubt") {
  auto many = contract({SliceRole::monitored});
  many.confidence.means = schema::Means::approximate;
  many.clauses = {make::slice_clause("kl", schema::MetricSubject{Metric::kl_train_inf, Aggregate::sequence_mean},
                                     make::max(0.001), {SliceRole::monitored})};
  many.slices.min_sequences = 50;
  Random random(5);
  auto table = make::table();
  // 70 languages: Holm asks for p ≤ 0.0304/70 = 4.3e-4 and 1,999 replicates give 5e-4 at best.
  for (int i = 0; i < 70 * 50; ++i) {
    const int language = i % 70;
    make::append(table, {10,
                         (language == 7 ? 0.1 : 0.01) * (0.8 + 0.4 * random.uniform()),
                         {{"language", "l" + std::to_string(language)}}});
  }
  const StageReport report = evaluate(many, table);
  CHECK(report.verdict == Verdict::error);
  for (const schema::ClauseVerdict& verdict : report.clauses) {
    const bool broken = verdict.where.at("language") == "l7";
    CHECK(verdict.verdict == (broken ? Verdict::error : Verdict::pass));
    if (broken) CHECK(verdict.message.find("family of 70") != std::string::npos);
  }
}

TEST_CASE("a clause on critical slices of a contract that names none is an error and blocks") {
  auto named_none = contract({SliceRole::critical});
  named_none.slices.critical.clear();
  const StageReport report = evaluate(named_none, corpus(0.01, 1));
  CHECK(report.verdict == Verdict::error);
  REQUIRE(report.clauses.size() == 1);
  CHECK(report.clauses[0].message.find("slices.critical") != std::string::npos);
}

TEST_CASE("sequences without the attribute are a slice of their own") {
  auto table = make::table();
  for (int i = 0; i < 400; ++i) {
    make::Sequence sequence{10, i % 2 == 0 ? 0.01 : 0.06, {}};
    if (i % 2 == 0) sequence.slices = {{"language", "en"}};
    sequence.tv += 0.0001 * (i % 7);
    make::append(table, sequence);
  }
  const StageReport report = evaluate(contract({SliceRole::monitored}), table);
  const auto missing = std::ranges::find(report.clauses, schema::SliceWhere{{"language", "(missing)"}},
                                         &schema::ClauseVerdict::where);
  REQUIRE(missing != report.clauses.end());
  CHECK(missing->verdict == Verdict::violated);
}

TEST_CASE("an outcome clause pairs both kernels on a critical slice") {
  auto result = make::contract();
  result.slices.critical = {{{"language", "de"}}};
  schema::Limits limits;
  limits.non_inferiority_margin = 0.03;
  result.clauses = {
      make::slice_clause("task", schema::OutcomeSubject{"correct"}, limits, {SliceRole::critical})};
  auto table = corpus(0.01, 1);
  CHECK(evaluate(result, table).verdict == Verdict::error);
  for (std::size_t i = 0; i < table.infos.size(); ++i) {
    table.infos[i].correct_train = true;
    table.infos[i].correct_inf = true;
  }
  CHECK(evaluate(result, table).verdict == Verdict::pass);
  for (std::size_t i = 0; i < table.infos.size(); ++i)
    table.infos[i].correct_inf = i % 100 != 5 && i % 100 != 6;
  const StageReport report = evaluate(result, table);
  CHECK(report.verdict == Verdict::violated);
  CHECK(report.clauses.at(0).details.at("b") == 40);
}
