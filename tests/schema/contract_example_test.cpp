#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {
namespace {

/// The example that explains contracts, word for word.
std::string example() {
  std::ifstream stream("tests/vectors/contract_example.yaml");
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("the example of a contract registers as it is written") {
  const ContractReport report = parse_contract(example(), "contract_example.yaml");
  INFO(format_faults(report.faults, "contract_example.yaml"));
  REQUIRE(report.contract.has_value());
  CHECK(report.contract->clauses.size() == 18);
  CHECK(report.contract->escalation.rules.size() == 4);
}

TEST_CASE("each clause of the example is decided where it is documented to be") {
  const ContractReport report = parse_contract(example(), "contract_example.yaml");
  REQUIRE(report.contract.has_value());
  const auto stages = [](std::initializer_list<Stage> list) {
    StageSet set = 0;
    for (const Stage stage : list) set = static_cast<StageSet>(set | stage_bit(stage));
    return set;
  };
  const StageSet offline = stages({Stage::offline_numeric});
  const StageSet slice = stages({Stage::statistical_slice});
  const StageSet traffic = stages({Stage::shadow_runtime, Stage::canary});
  const std::map<std::string, StageSet> expected{
      {"numerical.finite", offline},    {"numerical.span-tail", offline},
      {"numerical.kl", offline},        {"numerical.reward-drift", offline},
      {"numerical.pg-bias", offline},   {"numerical.clip-budget", offline},
      {"statistical.slice-tv", slice},  {"statistical.slice-tail", slice},
      {"statistical.slice-top1", slice},
      {"statistical.task", slice},      {"statistical.calibration", slice},
      {"runtime.errors", traffic},      {"runtime.ttft", traffic},
      {"runtime.inter-token", traffic}, {"runtime.batch-invariant", stages({Stage::shadow_runtime})},
      {"observability.pairs", traffic}, {"observability.coverage", traffic},
      {"observability.fresh", traffic},
  };
  for (const Clause& clause : report.contract->clauses) {
    CAPTURE(clause.address());
    CHECK(clause.stages == expected.at(clause.address()));
  }
}

TEST_CASE("the example means the same in JSON") {
  const ContractReport yaml = parse_contract(example(), "contract_example.yaml");
  REQUIRE(yaml.contract.has_value());
  const ContractReport json = parse_contract(yaml.contract->canonical_json, "contract_example.json");
  REQUIRE(json.contract.has_value());
  CHECK(json.contract->digest == yaml.contract->digest);
}

}  // namespace
}  // namespace driftgate::schema
