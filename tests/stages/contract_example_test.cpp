#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "stages/canary/canary.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;

namespace {

schema::Contract example() {
  std::ifstream stream("tests/vectors/contract_example.yaml");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  auto report = schema::parse_contract(text, "contract_example.yaml");
  INFO(schema::format_faults(report.faults, "contract_example.yaml"));
  REQUIRE(report.contract.has_value());
  return *report.contract;
}

}  // namespace

TEST_CASE("the documented contract runs as a canary and watches the slices that its rule names") {
  CanaryWorld world(example(), 1);
  world.slices = {"language=de", "domain=code;language=en", "language=fr"};
  const CanaryDecision decision = world.second(0);
  std::set<std::string> watched;
  for (const auto& verdict : decision.verdicts) {
    if (verdict.clause == "runtime.errors") watched.insert(schema::slice_text(verdict.where));
    CHECK(verdict.verdict != schema::Verdict::error);
  }
  CHECK(watched == std::set<std::string>{"", "domain=code", "language=de", "language=en", "language=fr"});
  CHECK(decision.action == CanaryAction::hold);
}

TEST_CASE("under the documented contract a broken critical slice goes to the fallback kernel") {
  CanaryWorld world(example(), 2);
  world.slices = {"language=de", "domain=code;language=en", "language=fr"};
  world.per_second = 600;
  world.slice_fails["language=de"] = 0.5;
  CanaryDecision decision;
  for (int second = 0; second < 120; ++second) {
    decision = world.second(0);
    if (decision.action == CanaryAction::route_slice) break;
    REQUIRE(decision.action != CanaryAction::rollback);
    world.follow(decision);
  }
  REQUIRE(decision.action == CanaryAction::route_slice);
  CHECK(decision.fallback_slices == std::vector<schema::SliceWhere>{{{"language", "de"}}});
  CHECK(decision.escalation.rule == "rule runtime.errors → route_slice");
}
