#include "stages/clauses/bounded_test.hpp"

#include <doctest/doctest.h>

#include <limits>

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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Bounds {
  double lower = 0, upper = 1;
};

/// A table of lists in which every row of every sequence has these bounds of tv, KL and topk_overlap.
gpu::MeasurementTable partial_table(std::size_t sequences, Bounds tv,
                                    std::vector<gpu::Threshold> thresholds = {}) {
  auto table = make::table(std::move(thresholds));
  table.partial.mode = "topk";
  table.partial.listed = 20;
  table.partial.metrics = {Metric::tv, Metric::kl_inf_train, Metric::topk_overlap};
  for (std::size_t i = 0; i < sequences; ++i) {
    make::append(table, {});
    gpu::SequenceRow& row = table.sequences.back();
    row.metrics = {};
    row.metrics[make::at(Metric::nonfinite)] = make::constant(10, 0);
    gpu::SequenceBounds& bounds = row.bounds.emplace();
    bounds.metrics = {{make::constant(10, tv.lower), make::constant(10, tv.upper)},
                      {make::constant(10, tv.lower), make::constant(10, kInfinity)},
                      {make::constant(10, 0.9), make::constant(10, 0.95)}};
    bounds.tail_train = bounds.tail_inf = make::constant(10, 0.03);
    row.beyond.assign(table.thresholds.size(), 0);
    bounds.maybe_beyond.assign(table.thresholds.size(), 10);
  }
  return table;
}

schema::ClauseVerdict decide(const gpu::MeasurementTable& table, const schema::Clause& clause,
                             schema::Means means = schema::Means::exact) {
  schema::Contract contract;
  contract.confidence.means = means;
  contract.slices.min_sequences = 10;
  contract.clauses.push_back(clause);
  ClauseData data{&contract, &table, 0.05, 1};
  auto verdict = decide_clause(data, contract.clauses.front(), {}, schema::SliceRole::corpus);
  const auto follows = schema::rederive(verdict);
  REQUIRE(follows.has_value());
  CHECK(*follows == verdict.verdict);
  return verdict;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

schema::Clause tv_mean(double max) {
  return make::numeric("tv", Metric::tv, Aggregate::sequence_mean, make::max(max));
}

}  // namespace

TEST_CASE("a mean known by bounds passes by the upper one and is violated by the lower one") {
  const auto table = partial_table(400, {0.002, 0.032});
  auto verdict = decide(table, tv_mean(0.04));
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.rule == schema::VerdictRule::bounded_test);
  CHECK(contains(verdict.message, "by its upper bound"));
  verdict = decide(table, tv_mean(0.001));
  CHECK(verdict.verdict == Verdict::violated);
  CHECK(contains(verdict.message, "by its lower bound"));
  verdict = decide(table, tv_mean(0.02));
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(contains(verdict.message, "with k = 20 and 3% tail mass tv is known only to 0.03"));
  CHECK(contains(verdict.message, "the max of 0.02 lies between"));
  CHECK(verdict.details.at("estimate_lower") == doctest::Approx(0.002));
  CHECK(verdict.details.at("estimate_upper") == doctest::Approx(0.032));
}

TEST_CASE("a min limit is proven by the lower bound and broken by the upper one") {
  const auto table = partial_table(400, {});
  const auto overlap = [](double min) {
    schema::Limits limits;
    limits.min = min;
    return make::numeric("overlap", Metric::topk_overlap, Aggregate::sequence_mean, limits);
  };
  CHECK(decide(table, overlap(0.85)).verdict == Verdict::pass);
  CHECK(decide(table, overlap(0.97)).verdict == Verdict::violated);
  CHECK(decide(table, overlap(0.93)).verdict == Verdict::inconclusive);
}

TEST_CASE("a metric without an upper bound never passes and is violated by its lower bound") {
  const auto table = partial_table(400, {0.002, 0.032});
  const auto kl = [](double max) {
    return make::numeric("kl", Metric::kl_inf_train, Aggregate::sequence_mean, make::max(max));
  };
  auto verdict = decide(table, kl(1e6), schema::Means::approximate);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(contains(verdict.message, "has no upper bound"));
  CHECK(contains(verdict.message, "kl_inf_train_sampled"));
  CHECK_FALSE(verdict.details.contains("estimate_upper"));
  CHECK(decide(table, kl(0.001), schema::Means::approximate).verdict == Verdict::violated);
  // Exactly, only a clip bounds it: an upper bound that does not exist counts as the clip.
  CHECK(decide(table, kl(0.001)).verdict == Verdict::inconclusive);
  auto capped = kl(0.001);
  capped.clip = 0.02;
  verdict = decide(table, capped);
  CHECK(verdict.verdict == Verdict::violated);
  CHECK_FALSE(verdict.approximate);
  CHECK(verdict.details.at("above_clip") == 400);
  capped.limits.max = 0.01;
  CHECK(decide(table, capped).verdict == Verdict::inconclusive);
}

TEST_CASE("a census of bounds counts what is certain") {
  const auto table = partial_table(400, {0.002, 0.032});
  const auto largest = [](double max) {
    return make::numeric("max", Metric::tv, Aggregate::max, make::max(max));
  };
  auto verdict = decide(table, largest(0.001));
  CHECK(verdict.verdict == Verdict::violated);
  CHECK(verdict.rule == schema::VerdictRule::bounded_census);
  CHECK(decide(table, largest(0.05)).verdict == Verdict::pass);
  CHECK(decide(table, largest(0.02)).verdict == Verdict::inconclusive);
  const auto few = partial_table(5, {0.002, 0.032});
  verdict = decide(few, largest(0.05));
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(contains(verdict.message, "5 are missing"));
}

TEST_CASE("a quantile known by bounds counts the rows that are and that may be beyond") {
  const gpu::Threshold threshold{Metric::tv, 0.02, true};
  const schema::Clause clause = make::numeric("p90", Metric::tv, Aggregate::p90, make::max(0.02));
  auto table = partial_table(400, {0.002, 0.032}, {threshold});
  auto verdict = decide(table, clause);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(contains(verdict.message, "the share of rows in an average sequence with tv over 0.02"));
  for (gpu::SequenceRow& row : table.sequences) row.beyond[0] = 10;
  CHECK(decide(table, clause).verdict == Verdict::violated);
  for (gpu::SequenceRow& row : table.sequences) {
    row.beyond[0] = 0;
    row.bounds->maybe_beyond[0] = 0;
  }
  CHECK(decide(table, clause).verdict == Verdict::pass);
}

TEST_CASE("a finding that decides makes every clause over the captures an error that names it") {
  auto table = partial_table(400, {0.002, 0.032});
  table.partial.findings.push_back({"rounded_to_bf16", "inf", false, 1, 1, "rounded"});
  CHECK(decide(table, tv_mean(0.04)).verdict == Verdict::pass);
  table.partial.findings.push_back({"off_by_one", "both", true, 1, 1, "the rows are shifted"});
  const auto verdict = decide(table, tv_mean(0.04));
  CHECK(verdict.verdict == Verdict::error);
  CHECK(contains(verdict.message, "off_by_one: the rows are shifted"));
}

TEST_CASE("rows that are not finite violate a clause on bounds") {
  auto table = partial_table(400, {0.002, 0.032});
  table.sequences[3].metrics[make::at(Metric::nonfinite)] = make::constant(10, 1);
  CHECK(decide(table, tv_mean(0.04)).verdict == Verdict::violated);
}

TEST_CASE("slices are searched for harm by the lower bounds, which prove nothing") {
  const auto table = partial_table(400, {0.002, 0.032});
  const schema::MetricSubject subject{Metric::tv, Aggregate::sequence_mean};
  const auto figures = bounded_figures(table, subject, {0.02, true}, {});
  REQUIRE(figures.has_value());
  CHECK(figures->harm_only);
  CHECK(figures->once);
  CHECK(figures->parts[0].sum == doctest::Approx(0.002));
  CHECK_FALSE(
      bounded_figures(table, {Metric::kl_inf_train, Aggregate::sequence_mean}, {0.02, true}, {}).has_value());
}
