#include <algorithm>
#include <functional>

#include "tests/simulation/figure.hpp"
#include "tests/stages/canary_world.hpp"

namespace driftgate::simulation {
namespace {

using stages::CanaryAction;
using stages::CanaryDecision;
using stages::CanaryWorld;

constexpr int kMostSeconds = 900;
constexpr double kAlphaHarm = 0.005, kAlphaAdvance = 0.025;  // the first attempt spends half of 0.01 and 0.05

/// Errors at most 5% and at most 1.5 times the incumbent's, a ramp of 5, 25 and 100%, slices sent away by
/// rule.
schema::Contract contract() {
  auto result = stages::make::canary_contract();
  result.clauses[0].limits.max_ratio = 1.5;
  result.canary->steps = {{500, false}, {2'500, false}, {10'000, false}};
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::route_slice;
  rule.any_slice = true;
  result.escalation.rules = {rule};
  return result;
}

struct Scenario {
  const char* name;
  double incumbent, candidate;
  double broken_slice;  ///< failure rate on one eighth of the traffic; negative: like the rest
};

struct Outcome {
  bool promoted = false, rolled_back = false, slice_sent_away = false, right_slice = false;
  std::uint64_t exposed = 0;
};

/// One canary from its first step to its end, approvals given at once.
Outcome run_canary(const schema::Contract& contract, const Scenario& scenario, std::uint64_t seed) {
  CanaryWorld world(contract, seed);
  world.incumbent_fails = scenario.incumbent;
  world.slices = {"language=de", "language=en", "language=en", "language=en",
                  "language=en", "language=en", "language=en", "language=en"};
  if (scenario.broken_slice >= 0) world.slice_fails["language=de"] = scenario.broken_slice;
  Outcome out;
  while (world.seconds < kMostSeconds) {
    const CanaryDecision decision = world.second(scenario.candidate);
    out.exposed = decision.exposed_requests;
    if (decision.action == CanaryAction::route_slice && !out.slice_sent_away) {
      out.slice_sent_away = true;
      out.right_slice = decision.fallback_slices == std::vector<schema::SliceWhere>{{{"language", "de"}}};
    }
    world.approved = decision.action == CanaryAction::wait_approval;
    out.promoted = decision.action == CanaryAction::finish;
    out.rolled_back = decision.action == CanaryAction::rollback || decision.action == CanaryAction::block;
    const bool ended = out.promoted || out.rolled_back || decision.action == CanaryAction::inconclusive ||
                       decision.action == CanaryAction::revert;
    if (ended) break;
    world.follow(decision);
  }
  return out;
}

double median_exposed(const std::vector<Outcome>& outcomes) {
  std::vector<std::uint64_t> values;
  for (const Outcome& outcome : outcomes) values.push_back(outcome.exposed);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return static_cast<double>(*middle);
}

}  // namespace

void whole_canaries(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(200);
  const auto contract_of_all = contract();
  const Scenario scenarios[] = {{"both fail 0.5%", 0.005, 0.005, -1},
                                {"both fail 5%, the limit", 0.05, 0.05, -1},
                                {"0.5% against 1.5%", 0.005, 0.015, -1},
                                {"0.5% against 5%", 0.005, 0.05, -1},
                                {"an eighth of the traffic fails 30%", 0.005, 0.005, 0.3}};
  for (const Scenario& scenario : scenarios) {
    std::vector<Outcome> outcomes;
    for (std::uint64_t run = 0; run < runs; ++run)
      outcomes.push_back(run_canary(contract_of_all, scenario, stages::mix64(effort.seed + 131 + run)));
    const auto add = [&](const char* quantity, const std::function<bool(const Outcome&)>& counts,
                         std::optional<double> nominal, Claim claim) {
      const auto n = static_cast<double>(std::ranges::count_if(outcomes, counts));
      out.push_back({"canaries as a whole", "all tests of the canary, with its escalation", scenario.name,
                     quantity, n / static_cast<double>(runs), runs, nominal, claim, ""});
    };
    const bool harmless = scenario.candidate <= scenario.incumbent && scenario.broken_slice < 0;
    const bool at_limit = scenario.candidate >= 0.05;
    add(
        "promoted", [](const Outcome& o) { return o.promoted; },
        at_limit ? std::optional(kAlphaAdvance) : std::nullopt, at_limit ? Claim::exact : Claim::figure);
    add(
        "rolled back", [](const Outcome& o) { return o.rolled_back; },
        harmless ? std::optional(kAlphaHarm) : std::nullopt, harmless ? Claim::exact : Claim::figure);
    if (scenario.broken_slice >= 0)
      add(
          "the broken slice alone sent to the fallback", [](const Outcome& o) { return o.right_slice; },
          std::nullopt, Claim::figure);
    out.push_back({"canaries as a whole", "all tests of the canary, with its escalation", scenario.name,
                   "requests exposed (median)", median_exposed(outcomes), runs, std::nullopt, Claim::figure,
                   ""});
  }
}

}  // namespace driftgate::simulation
