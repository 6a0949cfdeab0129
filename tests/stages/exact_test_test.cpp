#include "stages/clauses/exact_test.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/compare_bits.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/offline_numeric.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::ClauseVerdict;
using schema::ExactTensor;
using schema::Verdict;

namespace {

gpu::MeasurementTable corpus(std::size_t sequences) {
  auto table = make::table();
  for (std::size_t i = 0; i < sequences; ++i) make::append(table, {10, 0.01, {}});
  return table;
}

void say_bits(gpu::MeasurementTable& table, const std::string& what, std::uint64_t differing,
              std::uint64_t of, const std::string& text) {
  table.partial.findings.push_back({gpu::bits_finding(what), "both", false, differing, of, text});
}

schema::Contract contract(ExactTensor tensor, std::optional<std::uint64_t> min_count = {}) {
  auto result = make::contract();
  result.clauses = {make::clause(schema::Family::numerical, "same", schema::ExactSubject{tensor}, {},
                                 schema::Stage::offline_numeric)};
  result.clauses[0].limits.min_count = min_count;
  return result;
}

ClauseVerdict decided(const schema::Contract& c, const gpu::MeasurementTable& table) {
  StageInputs inputs;
  inputs.alpha = 0.05;
  const StageReport report = evaluate_offline_numeric(c, table, inputs);
  REQUIRE(report.clauses.size() == 1);
  CHECK(report.verdict == report.clauses[0].verdict);
  CHECK(schema::rederive(report.clauses[0]).value() == report.clauses[0].verdict);
  return report.clauses[0];
}

}  // namespace

TEST_CASE("equal bits in enough sequences pass and bound the share that may differ") {
  auto table = corpus(120);
  say_bits(table, "logits", 0, 1'200, "the bits of the logits are equal in all 1200 rows");
  const ClauseVerdict verdict = decided(contract(ExactTensor::logits), table);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(verdict.n == 1'200);
  CHECK(verdict.clusters == 120);
  CHECK(verdict.details.at("rate_bound") == doctest::Approx(1 - std::pow(0.05, 1.0 / 120)));
  CHECK(verdict.message.find("% of all sequences have a row that differs") != std::string::npos);
}

TEST_CASE("equal bits in too few sequences are inconclusive and say how many are missing") {
  auto table = corpus(99);
  say_bits(table, "logits", 0, 990, "the bits of the logits are equal in all 990 rows");
  const ClauseVerdict verdict = decided(contract(ExactTensor::logits), table);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(verdict.details.at("missing_sequences") == 1);
  CHECK(decided(contract(ExactTensor::logits, 99), table).verdict == Verdict::pass);
  // Sequences of one cluster are one.
  for (gpu::SequenceInfo& info : table.infos) info.cluster = "one";
  CHECK(decided(contract(ExactTensor::logits, 2), table).verdict == Verdict::inconclusive);
}

TEST_CASE("one row that differs violates, whatever its size, and the verdict names it") {
  auto table = corpus(500);
  say_bits(table, "tokens", 1, 5'000, "the bits of the tokens differ in 1 of 5000 rows, first in sequence 7");
  const ClauseVerdict verdict = decided(contract(ExactTensor::tokens), table);
  CHECK(verdict.verdict == Verdict::violated);
  CHECK(*verdict.estimate == 1);
  CHECK(verdict.message ==
        "The bits of the tokens differ in 1 of 5000 rows, first in sequence 7. One such row is enough.");
}

TEST_CASE("it is decided on captures of other tokens, where every other clause is an error") {
  auto table = corpus(120);
  say_bits(table, "tokens", 3, 1'200, "the bits of the tokens differ in 3 of 1200 rows");
  table.partial.findings.push_back(
      {gpu::kOtherTokens, "both", true, 1, 1'200, "the captures hold different tokens"});
  schema::Contract c = contract(ExactTensor::tokens);
  c.clauses.push_back(make::numeric("tv", schema::Metric::tv, schema::Aggregate::mean, make::max(0.5)));
  StageInputs inputs;
  inputs.alpha = 0.05;
  const StageReport report = evaluate_offline_numeric(c, table, inputs);
  CHECK(report.clauses[0].verdict == Verdict::violated);
  CHECK(report.clauses[1].verdict == Verdict::error);
  CHECK(report.clauses[1].message.find("different tokens") != std::string::npos);
  CHECK(report.verdict == Verdict::violated);
}

TEST_CASE("bits that were not compared, or cannot be, are an error with the reason") {
  auto table = corpus(120);
  CHECK(decided(contract(ExactTensor::logits), table).message.find("measure again with this contract") !=
        std::string::npos);
  say_bits(table, "logits", 0, 0, "logits is F32 in the capture of K_train and BF16 in that of K_inf");
  const ClauseVerdict verdict = decided(contract(ExactTensor::logits), table);
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("BF16") != std::string::npos);
}

TEST_CASE("a contract says which bits must be compared, each once") {
  schema::Contract c = contract(ExactTensor::logits);
  c.clauses.push_back(c.clauses[0]);
  c.clauses.push_back(contract(ExactTensor::tokens).clauses[0]);
  CHECK(required_bits(c) == std::vector<std::string>{"logits", "tokens"});
  c.clauses.clear();
  CHECK(required_bits(c).empty());
}
