#include <doctest/doctest.h>

#include <cmath>

#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;

namespace {

schema::Contract sliced_contract() {
  auto contract = make::canary_contract();
  contract.clauses[0].limits.max_ratio = 1;
  contract.canary->soak_ms = 1'000'000;
  contract.confidence.alpha_harm = 0.4;  // the first attempt spends 0.2
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::route_slice;
  rule.any_slice = true;
  contract.escalation.rules = {rule};
  return contract;
}

}  // namespace

TEST_CASE("at the limit a canary convicts nothing, on any slice, more often than its level") {
  constexpr int kRuns = 400;
  constexpr double kLevel = 0.2;
  const auto contract = sliced_contract();
  int convicted = 0;
  for (int run = 0; run < kRuns; ++run) {
    CanaryWorld world(contract, 600 + static_cast<std::uint64_t>(run));
    world.slices = {"language=de", "language=en", "language=fr", "language=it"};
    world.incumbent_fails = 0.05;  // both arms at the max, and alike
    for (int second = 0; second < 60; ++second) {
      const auto action = world.second(0.05).action;
      if (action != CanaryAction::route_slice && action != CanaryAction::rollback) continue;
      ++convicted;
      break;
    }
  }
  MESSAGE("convicted " << convicted << " of 400 at a level of 0.2");
  CHECK(convicted <= kRuns * kLevel + 3 * std::sqrt(kRuns * kLevel * (1 - kLevel)));
}
