#include <doctest/doctest.h>

#include "stages/canary_streams.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

TEST_CASE("a candidate as slow as its incumbent is violated when both are beyond the max") {
  auto contract = make::canary_contract();
  schema::Limits both;
  both.max_ratio = 1.5;
  both.max = 20;  // the world's latencies are 20 to 30 ms
  contract.clauses = {make::traffic("ttft",
                                    schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p50},
                                    both, schema::Stage::canary)};
  contract.canary->soak_ms = 1'000'000;
  CanaryWorld slow(contract, 1);
  CanaryDecision decision;
  for (int second = 0; second < 120 && decision.action != CanaryAction::rollback; ++second)
    decision = slow.second(0);
  CHECK(decision.action == CanaryAction::rollback);
  REQUIRE(decision.verdicts.size() == 2);
  CHECK(decision.verdicts[0].limit_kind == "max");
  CHECK(decision.verdicts[0].verdict == Verdict::violated);
  CHECK(decision.verdicts[1].limit_kind == "max_ratio");
  CHECK(decision.verdicts[1].verdict == Verdict::pass);
  contract.clauses[0].limits.max = 40;
  CanaryWorld fine(contract, 1);
  for (int second = 0; second < 60; ++second) CHECK(fine.second(0).action == CanaryAction::hold);
}

TEST_CASE("a stream knows its verdict by clause, slice and limit") {
  schema::Limits ratio;
  ratio.max_ratio = 1.5;
  const StreamHead head{
      make::traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p50}, ratio,
                    schema::Stage::canary),
      {},
      schema::SliceRole::corpus,
      std::nullopt,
      0};
  schema::ClauseVerdict verdict;
  verdict.clause = "runtime.ttft";
  verdict.limit_kind = "max_ratio";
  CHECK(head.made(verdict));
  verdict.limit_kind = "max";
  CHECK_FALSE(head.made(verdict));
  verdict.limit_kind = "max_ratio";
  verdict.where = {{"language", "de"}};
  CHECK_FALSE(head.made(verdict));
}
