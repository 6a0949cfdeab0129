#include "stages/batch_invariance.hpp"

#include <doctest/doctest.h>

#include "schema/verdict_rule.hpp"
#include "stages/statistics/distributions.hpp"
#include "tests/stages/make.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;
using schema::Verdict;

/// A floor of `count` sequences of which the first `variant` have two rows with another greedy token.
gpu::MeasurementTable floor_of(int count, int variant) {
  gpu::MeasurementTable table = make::table();
  for (int i = 0; i < count; ++i) {
    make::append(table, {.slices = {{"language", i % 2 == 0 ? "de" : "en"}}});
    if (i >= variant) continue;
    auto& flips = table.sequences.back().metrics[make::at(Metric::top1_flip)];
    flips.sum = 2;
    flips.max = 1;
  }
  return table;
}

schema::Clause clause_at(double max) {
  return make::clause(schema::Family::numerical, "batch-invariant",
                      schema::MetricSubject{Metric::batch_variant_rate, {}}, make::max(max),
                      schema::Stage::offline_numeric);
}

schema::ClauseVerdict decide(const gpu::MeasurementTable* floor, double max,
                             const schema::SliceWhere& where = {}) {
  const schema::Contract contract = make::contract();
  const auto table = floor_of(300, 0);
  const ClauseData data{&contract, &table, 0.05, 1, {.train = {}, .inf = {floor, "sha256:f"}}};
  auto verdict = decide_clause(data, clause_at(max), where, schema::SliceRole::corpus);
  const auto again = schema::rederive(verdict);
  REQUIRE(again);
  CHECK(*again == verdict.verdict);
  return verdict;
}

TEST_CASE("a prompt varies when any of its greedy tokens does, and prompts are counted exactly") {
  const auto floor = floor_of(300, 4);
  const auto verdict = decide(&floor, 0.05);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.n == 300);
  CHECK(verdict.clusters == 300);
  CHECK(verdict.details.at("variant") == 4);
  CHECK(verdict.estimate == 4.0 / 300);
  CHECK(verdict.upper == clopper_pearson_upper(4, 300, 0.05));
  CHECK(verdict.lower == clopper_pearson_lower(4, 300, 0.05));
  CHECK(verdict.p_value == binomial_at_least(4, 300, 0.05));
  CHECK(verdict.tables.at("floor_inf") == "sha256:f");
  CHECK(verdict.message.starts_with("4 of 300 prompts change their greedy tokens"));
}

TEST_CASE("the rate is violated when proven over its max and inconclusive between") {
  const auto many = floor_of(300, 60), some = floor_of(300, 15);
  CHECK(decide(&many, 0.05).verdict == Verdict::violated);
  CHECK(decide(&some, 0.05).verdict == Verdict::inconclusive);
}

TEST_CASE("a slice has its own rate") {
  const auto floor = floor_of(300, 20);  // ten of each language
  const auto verdict = decide(&floor, 0.2, {{"language", "de"}});
  CHECK(verdict.n == 150);
  CHECK(verdict.details.at("variant") == 10);
}

TEST_CASE("sequences of one cluster are one unit") {
  auto floor = floor_of(300, 10);
  for (std::size_t i = 0; i < floor.infos.size(); ++i) floor.infos[i].cluster = "c" + std::to_string(i / 2);
  const auto verdict = decide(&floor, 0.2);
  CHECK(verdict.clusters == 150);
  CHECK(verdict.n == 300);
  CHECK(verdict.method.find("betting") != std::string::npos);
}

TEST_CASE("without an inf floor the rate is an error that says how to make one") {
  const auto verdict = decide(nullptr, 0.05);
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("capture the same rows with batch N") != std::string::npos);
}

}  // namespace
}  // namespace driftgate::stages
