#include <doctest/doctest.h>

#include <string>

#include "gpu/drift.hpp"
#include "stages/statistical_slice.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

namespace {

/// The table of a shipped capture against the float32 one (tests/vectors).
gpu::MeasurementTable measured(const std::string& name) {
  auto train = gpu::Capture::open("tests/vectors/tiny_f32.safetensors");
  auto inf = gpu::Capture::open("tests/vectors/" + name + ".safetensors");
  auto corpus = gpu::read_corpus("tests/vectors/tiny_corpus.jsonl");
  REQUIRE(train);
  REQUIRE(inf);
  REQUIRE(corpus);
  auto table = gpu::measure(*train, *inf, &*corpus, {});
  REQUIRE(table);
  return std::move(*table);
}

StageReport evaluate(const std::string& name, double limit) {
  auto contract = make::contract();
  contract.slices.dimensions = {"domain", "prompt_length"};
  contract.slices.min_sequences = 5;
  contract.slices.critical = {{{"domain", "license"}, {"prompt_length", "short"}}};
  contract.clauses = {make::slice_clause("tv",
                                         schema::MetricSubject{schema::Metric::tv, schema::Aggregate::sequence_mean},
                                         make::max(limit), {schema::SliceRole::critical})};
  StageInputs inputs;
  inputs.seed = 1;
  inputs.alpha = 0.05;
  return evaluate_statistical_slice(contract, measured(name), inputs);
}

}  // namespace

TEST_CASE("the shipped capture with one bad slice is violated there and the bf16 capture is not") {
  // Each sequence counts once: the mean of the corpus is 0.061, that of the slice 0.22.
  const StageReport bad = evaluate("tiny_bf16_one_bad_slice", 0.08);
  REQUIRE(bad.clauses.size() == 1);
  CAPTURE(bad.clauses[0].message);
  CHECK(bad.verdict == Verdict::violated);
  REQUIRE(!bad.ranking.empty());
  CHECK(bad.ranking[0].hidden_by_mean);
  const StageReport good = evaluate("tiny_bf16", 0.08);
  // 13 sequences are too few to prove 0.08 by betting (36), and nothing speaks against it.
  CHECK(good.verdict == Verdict::inconclusive);
  CHECK(good.clauses.at(0).p_value.value_or(0) > 0.05);
}
