#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "schema/verdict_rule.hpp"
#include "stages/slices/slice_search.hpp"
#include "stages/statistical_slice.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"
#include "tests/stages/simulation/student_t.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::SliceRole;
using schema::Verdict;

// Rates are over independent corpora; the Monte-Carlo standard error at 0.05 is √(0.05·0.95/runs), and the
// limits leave three of them.

namespace {

constexpr double kLimit = 0.02;
constexpr double kAlpha = 0.05;

/// Sequences with three attributes of 4, 3 and 3 values that have nothing to do with the drift, whose mean is
/// the limit itself in every slice; a tenth, `broken`, have `times` the limit.
gpu::MeasurementTable corpus(std::size_t count, double times, bool clustered, Random& random) {
  auto table = make::table();
  double shared = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!clustered || i % 3 == 0) shared = random.uniform();
    const std::size_t language = random.below(4);
    const bool broken = times != 1 && i % 10 == 0;
    make::append(table, {2, 2 * kLimit * shared * (broken ? times : 1), {}});
    table.infos.back().slices = {{"language", broken ? "xx" : "l" + std::to_string(language)},
                                 {"domain", "d" + std::to_string(random.below(3))},
                                 {"length", "p" + std::to_string(random.below(3))}};
    if (clustered) table.infos.back().cluster = "c" + std::to_string(i / 3);
  }
  return table;
}

schema::Contract contract() {
  auto result = make::contract();
  result.slices.dimensions = {"language", "domain", "length"};
  result.slices.min_sequences = 30;
  result.slices.discover = schema::Slices::Discover{2, true, {}};
  result.clauses = {
      make::slice_clause("tv", schema::MetricSubject{Metric::tv, Aggregate::sequence_mean}, make::max(kLimit), {})};
  return result;
}

bool alarms(const StageReport& report) {
  return std::ranges::any_of(report.clauses, [](const schema::ClauseVerdict& verdict) {
    return verdict.role == SliceRole::discovered && verdict.verdict == Verdict::violated &&
           verdict.limit_kind != schema::kRatioToRest;
  });
}

StageReport evaluate(const gpu::MeasurementTable& table, std::uint64_t seed) {
  StageInputs inputs;
  inputs.alpha = kAlpha;
  inputs.seed = seed;
  return evaluate_statistical_slice(contract(), table, inputs);
}

/// What it replaces: the worst slice of all the data, tested on the data that it was chosen by.
bool naive_alarm(const gpu::MeasurementTable& table, std::uint64_t seed) {
  const SearchSpace space(table, {"language", "domain", "length"}, seed);
  double least = 1;
  for (const auto& dimensions : space.combinations(2)) {
    std::map<std::vector<std::uint32_t>, Selection> slices;
    for (std::size_t i = 0; i < table.sequences.size(); ++i) {
      std::vector<std::uint32_t> key;
      for (const std::size_t d : dimensions) key.push_back(space.code(d, i));
      slices[key].push_back(i);
    }
    for (const auto& [key, selection] : slices) {
      if (selection.size() < 30) continue;
      const auto clusters = collect(table, selection, [](const gpu::SequenceRow& row) {
        const gpu::Moments& tv = row.metrics[make::at(Metric::tv)];
        return ClusterSum{static_cast<double>(tv.n), tv.sum};
      });
      least = std::min(least, student_t(clusters, kLimit).p_high);
    }
  }
  return least <= kAlpha;
}

}  // namespace

TEST_CASE("the search raises false alarms at its level where every slice is at the limit itself") {
  constexpr int kRuns = 300;
  Random random(301);
  int alarmed = 0;
  int naive = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto table = corpus(600, 1, false, random);
    alarmed += alarms(evaluate(table, random.next())) ? 1 : 0;
    naive += naive_alarm(table, 1) ? 1 : 0;
  }
  MESSAGE("false alarms of " << kRuns << ": half-split with e-BH " << alarmed
                             << ", worst slice tested on its own data " << naive);
  CHECK(alarmed <= kRuns * (kAlpha + 3 * std::sqrt(kAlpha * (1 - kAlpha) / kRuns)));
  CHECK(naive > kRuns / 2);
}

TEST_CASE("the search keeps its level on clusters of three sequences that are alike") {
  constexpr int kRuns = 200;
  Random random(302);
  int alarmed = 0;
  for (int run = 0; run < kRuns; ++run) {
    alarmed += alarms(evaluate(corpus(600, 1, true, random), random.next())) ? 1 : 0;
  }
  MESSAGE("false alarms of " << kRuns << ": " << alarmed);
  CHECK(alarmed <= kRuns * (kAlpha + 3 * std::sqrt(kAlpha * (1 - kAlpha) / kRuns)));
}

TEST_CASE("a tenth of the corpus at three times the limit is found and named") {
  constexpr int kRuns = 100;
  Random random(303);
  int found = 0;
  for (int run = 0; run < kRuns; ++run) {
    const StageReport report = evaluate(corpus(2'000, 3, false, random), random.next());
    found += std::ranges::any_of(report.clauses,
                                 [](const schema::ClauseVerdict& verdict) {
                                   return verdict.role == SliceRole::discovered &&
                                          verdict.limit_kind != schema::kRatioToRest &&
                                          verdict.verdict == Verdict::violated &&
                                          verdict.where == schema::SliceWhere{{"language", "xx"}};
                                 })
                 ? 1
                 : 0;
  }
  MESSAGE("found and named in " << found << " of " << kRuns);
  CHECK(found >= 90);
}
