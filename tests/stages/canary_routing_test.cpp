#include <doctest/doctest.h>

#include "stages/canary/canary.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Action;
using schema::Verdict;

namespace {

const schema::SliceWhere kGerman{{"language", "de"}};

schema::EscalationRule rule(std::string match, Action action) {
  schema::EscalationRule result;
  result.match = std::move(match);
  result.action = action;
  return result;
}

/// errors at most 5%; a slice that fails goes to the fallback kernel.
schema::Contract routing_contract() {
  auto contract = make::canary_contract();
  contract.canary->steps = {{1'000, false}, {5'000, false}, {10'000, false}};
  contract.escalation.rules = {rule("runtime.errors", Action::route_slice)};
  contract.escalation.rules[0].any_slice = true;
  contract.escalation.recovery = {5, 10'000};
  return contract;
}

/// German requests are a third of the traffic.
CanaryWorld world_of(const schema::Contract& contract, std::uint64_t seed) {
  CanaryWorld world(contract, seed);
  world.slices = {"language=de", "language=en", "language=fr"};
  return world;
}

/// Runs until `wanted` or for `most` seconds.
CanaryDecision run_until(CanaryWorld& world, CanaryAction wanted, int most, double fails = 0) {
  CanaryDecision decision;
  for (int second = 0; second < most; ++second) {
    decision = world.second(fails);
    if (decision.action == wanted) break;
    world.follow(decision);
  }
  return decision;
}

const schema::ClauseVerdict* verdict_on(const CanaryDecision& decision, const schema::SliceWhere& where) {
  for (const auto& verdict : decision.verdicts) {
    if (verdict.where == where) return &verdict;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a slice that only the candidate fails goes to the fallback kernel and the rest climbs") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    CanaryWorld world = world_of(routing_contract(), seed);
    world.slice_fails["language=de"] = 0.5;
    const CanaryDecision routed = run_until(world, CanaryAction::route_slice, 120);
    REQUIRE(routed.action == CanaryAction::route_slice);
    CHECK(routed.fallback_slices == std::vector<schema::SliceWhere>{kGerman});
    CHECK_FALSE(routed.all_to_fallback);
    CHECK(routed.escalation.action == Action::route_slice);
    CHECK(routed.escalation.where == kGerman);
    CHECK(routed.next_step == world.step);
    CHECK(routed.next_share_bp == world.state.share_of_step(world.step));
    world.slice_fails.clear();
    CanaryDecision decision;
    std::uint32_t reached = world.step;
    for (int second = 0; second < 8; ++second) {
      decision = world.second(0);
      world.follow(decision);
      reached = std::max(reached, world.step);
      CHECK(decision.action != CanaryAction::rollback);
    }
    const auto* german = verdict_on(decision, kGerman);
    REQUIRE(german != nullptr);
    CHECK(german->verdict == Verdict::violated);
    CHECK(german->role == schema::SliceRole::monitored);
    CHECK(german->details.at("on_fallback") == 1);
  }
}

TEST_CASE("harm everywhere rolls back, whatever the slices say") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    CanaryWorld world = world_of(routing_contract(), seed);
    world.per_second = 600;  // all trip within one window
    const CanaryDecision decision = run_until(world, CanaryAction::rollback, 30, 0.5);
    CHECK(decision.action == CanaryAction::rollback);
    CHECK(decision.escalation.where.empty());
  }
}

TEST_CASE("a slice that accounts for a violation of all traffic in the same window is routed alone") {
  auto contract = routing_contract();
  contract.clauses[0].limits.max.reset();
  contract.clauses[0].limits.max_ratio = 1;
  CanaryWorld world(contract, 3, history_of(1'300));
  world.slices = {"language=de", "language=en", "language=fr"};
  world.per_second = 1'200;
  world.slice_fails["language=de"] = 0.9;
  // Nothing else fails: the same failures convict the slice and the whole.
  const CanaryDecision decision = world.second(0);
  CHECK(decision.action == CanaryAction::route_slice);
  const auto* whole = verdict_on(decision, {});
  REQUIRE(whole != nullptr);
  CHECK(whole->verdict == Verdict::violated);
  CHECK(whole->details.at("explained_by_slices") == 1);
  // Its processes begin afresh, so that the next windows are about the rest.
  const CanaryDecision next = world.second(0);
  CHECK(next.action != CanaryAction::rollback);
  CHECK(verdict_on(next, {})->verdict == Verdict::pass);
}

TEST_CASE("a slice comes back on probation after its dwell, and recovers with clean windows") {
  CanaryWorld world = world_of(routing_contract(), 5);
  world.slice_fails["language=de"] = 0.6;
  REQUIRE(run_until(world, CanaryAction::route_slice, 120).action == CanaryAction::route_slice);
  const auto routed_ms = world.now_ms;
  world.slice_fails.clear();
  const CanaryDecision back = run_until(world, CanaryAction::restore_slice, 60);
  REQUIRE(back.action == CanaryAction::restore_slice);
  CHECK(world.now_ms - routed_ms >= 10'000);
  CHECK(back.fallback_slices.empty());
  CHECK(world.second(0).action == CanaryAction::freeze);
  CanaryDecision decision;
  for (int second = 0; second < 60 && decision.recovered.empty(); ++second) decision = world.second(0);
  REQUIRE(decision.recovered.size() == 1);
  CHECK(decision.recovered[0].action == Action::route_slice);
  CHECK(decision.recovered[0].where == kGerman);
  CHECK(run_until(world, CanaryAction::finish, 600).action == CanaryAction::finish);
}

TEST_CASE("a slice that goes on failing waits twice as long each time and then stays away") {
  auto contract = routing_contract();
  contract.canary->bake_ms = 200'000;
  CanaryWorld world = world_of(contract, 6);
  world.slice_fails["language=de"] = 0.9;
  world.per_second = 240;
  std::vector<std::int64_t> dwells;
  std::int64_t routed_ms = 0;
  CanaryDecision decision;
  for (int second = 0; second < 600 && decision.action != CanaryAction::wait_approval; ++second) {
    decision = world.second(0);
    if (decision.action == CanaryAction::route_slice) routed_ms = world.now_ms;
    if (decision.action == CanaryAction::restore_slice) dwells.push_back(world.now_ms - routed_ms);
    world.follow(decision);
  }
  CHECK(dwells == std::vector<std::int64_t>{10'000, 20'000, 40'000});
  // The rest held through the bake: a person decides whether to finish with the slice where it is.
  REQUIRE(decision.action == CanaryAction::wait_approval);
  CHECK(decision.fallback_slices == std::vector<schema::SliceWhere>{kGerman});
  world.approved = true;
  decision = world.second(0);
  CHECK(decision.action == CanaryAction::finish);
  CHECK(decision.verdict == Verdict::pass);
  CHECK(decision.fallback_slices == std::vector<schema::SliceWhere>{kGerman});
  CHECK(decision.reasons.at(0).find("language=de stays on the fallback kernel") != std::string::npos);
}

TEST_CASE("a rule for one slice arms the clause on it and on no other") {
  auto contract = routing_contract();
  contract.escalation.rules[0].any_slice = false;
  contract.escalation.rules[0].slice = kGerman;
  CanaryWorld world = world_of(contract, 7);
  const CanaryDecision decision = world.second(0);
  REQUIRE(decision.verdicts.size() == 2);
  CHECK(verdict_on(decision, kGerman) != nullptr);
  CHECK(verdict_on(decision, {}) != nullptr);
}

TEST_CASE("slices of the role monitored are watched for harm and need no proof") {
  auto contract = routing_contract();
  contract.escalation.rules.clear();
  contract.clauses[0].slices = {schema::SliceRole::monitored};
  CanaryWorld world = world_of(contract, 8);
  CanaryDecision decision = run_until(world, CanaryAction::advance, 120);
  CHECK(decision.action == CanaryAction::advance);
  CHECK(decision.verdicts.size() == 4);  // all traffic, de, en, fr
  CHECK(verdict_on(decision, kGerman)->role == schema::SliceRole::monitored);
  CanaryWorld harmed = world_of(contract, 8);
  harmed.slice_fails["language=de"] = 0.3;
  decision = run_until(harmed, CanaryAction::rollback, 300);
  REQUIRE(decision.action == CanaryAction::rollback);
}

TEST_CASE("more slices than are watched are named as a limit") {
  CanaryWorld world(routing_contract(), 1);
  world.slices.clear();
  for (int i = 0; i < 40; ++i) world.slices.push_back("language=x" + std::to_string(i));
  const CanaryDecision decision = world.second(0);
  CHECK(decision.verdicts.size() == 17);
  CHECK(std::ranges::any_of(decision.reasons, [](const std::string& reason) {
    return reason.find("16 slices found in traffic are watched") != std::string::npos;
  }));
}

TEST_CASE("fallback takes all traffic away and gives it back on probation") {
  auto contract = routing_contract();
  contract.escalation.rules = {rule("runtime.errors", Action::fallback)};
  CanaryWorld world(contract, 9);
  const CanaryDecision away = run_until(world, CanaryAction::fallback, 60, 0.5);
  REQUIRE(away.action == CanaryAction::fallback);
  CHECK(away.all_to_fallback);
  const auto exposed = away.exposed_requests;
  CHECK(world.second(0.5).action == CanaryAction::freeze);
  const CanaryDecision back = run_until(world, CanaryAction::restore, 60);
  REQUIRE(back.action == CanaryAction::restore);
  CHECK(back.exposed_requests == exposed);
  CHECK_FALSE(back.all_to_fallback);
  CHECK(run_until(world, CanaryAction::advance, 120).action == CanaryAction::advance);
}

TEST_CASE("block ends the canary as a rollback that also blocks") {
  auto contract = make::canary_contract();
  contract.escalation.rules = {rule("runtime.errors", Action::block)};
  CanaryWorld world(contract, 2);
  const CanaryDecision decision = run_until(world, CanaryAction::block, 60, 0.3);
  CHECK(decision.action == CanaryAction::block);
  CHECK(decision.verdict == Verdict::violated);
}

TEST_CASE("a step back is carried out while another clause still recovers") {
  auto contract = make::canary_contract();
  contract.canary->steps[1].approval = false;
  contract.canary->bake_ms = 1'000'000;
  contract.clauses[0].severity = schema::Severity::soft;  // freezes
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  contract.clauses.push_back(
      make::traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p50}, ratio,
                    schema::Stage::canary));
  contract.escalation.rules = {rule("runtime.errors", Action::step_back),
                               rule("runtime.ttft", Action::step_back)};
  contract.escalation.recovery = {1'000, 1'000'000};
  CanaryWorld world(contract, 10);
  world.per_second = 300;
  CanaryDecision decision;
  for (int second = 0; second < 200 && world.step < 1; ++second) world.follow(world.second(0));
  REQUIRE(world.step == 1);
  for (int second = 0; second < 60 && decision.action != CanaryAction::step_back; ++second)
    decision = world.second(0.5);
  REQUIRE(decision.action == CanaryAction::step_back);
  CHECK(decision.escalation.clause == "runtime.errors");
  // errors recovers at step 0 for a long time; put it back to step 1 as an operator's contract may.
  world.follow(decision);
  world.step = 1;
  world.state.begin_step(1);
  world.candidate_slower = 2;
  for (int second = 0; second < 60; ++second) {
    decision = world.second(0);
    if (decision.action == CanaryAction::step_back) break;
    CHECK(decision.action == CanaryAction::freeze);
  }
  CHECK(decision.action == CanaryAction::step_back);
  CHECK(decision.escalation.clause == "runtime.ttft");
}

TEST_CASE("a notice is given once for each violation, beside what is done about it") {
  auto contract = make::canary_contract();
  contract.clauses[0].severity = schema::Severity::soft;
  contract.escalation.rules = {rule("runtime.errors", Action::notify),
                               rule("runtime.errors", Action::freeze)};
  contract.escalation.recovery = {3, 2'000};
  CanaryWorld world(contract, 11);
  int notices = 0;
  int frozen = 0;
  for (int second = 0; second < 60; ++second) {
    const CanaryDecision decision = world.second(0.5);
    notices += static_cast<int>(decision.notices.size());
    frozen += decision.action == CanaryAction::freeze ? 1 : 0;
  }
  CHECK(frozen > 20);
  CHECK(notices == 1);
}

TEST_CASE("a sample order stands until its clause recovered and does not stop the ramp") {
  auto contract = make::canary_contract();
  contract.clauses[0].severity = schema::Severity::soft;
  contract.escalation.rules = {rule("runtime.errors", Action::sample)};
  contract.escalation.recovery = {3, 2'000};
  contract.canary->soak_ms = 1'000'000;
  CanaryWorld world(contract, 12);
  CanaryDecision decision;
  for (int second = 0; second < 60 && !decision.sample; ++second) decision = world.second(0.5);
  REQUIRE(decision.sample);
  CHECK(decision.action == CanaryAction::hold);
  REQUIRE(decision.notices.size() == 1);
  CHECK(decision.notices[0].action == Action::sample);
  for (int second = 0; second < 60 && decision.sample; ++second) decision = world.second(0);
  CHECK_FALSE(decision.sample);
}

TEST_CASE("slices that are convicted together need less each than one alone") {
  auto contract = routing_contract();
  CanaryWorld alone = world_of(contract, 13);
  const double needed = alone.second(0).verdicts.at(0).details.at("e_harm_needed");
  CanaryWorld world = world_of(contract, 13);
  world.slice_fails["language=de"] = world.slice_fails["language=fr"] = 0.4;
  const CanaryDecision decision = run_until(world, CanaryAction::route_slice, 200);
  REQUIRE(decision.action == CanaryAction::route_slice);
  for (int second = 0; second < 200 && world.last.fallback_slices.size() < 2; ++second) world.second(0);
  CHECK(world.last.fallback_slices.size() == 2);
  CHECK(needed > 1 / 0.01);
}

TEST_CASE("a slice that is nearly all traffic is no slice: all traffic decides") {
  CanaryWorld world(routing_contract(), 14);
  world.slices = {"language=de"};
  const CanaryDecision decision = run_until(world, CanaryAction::rollback, 60, 0.5);
  CHECK(decision.action == CanaryAction::rollback);
  CHECK(decision.fallback_slices.empty());
}

TEST_CASE("the slice is convicted before all traffic, whatever fails now and then elsewhere") {
  int routed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto contract = routing_contract();
    contract.clauses[0].limits.max_ratio = 1.5;
    CanaryWorld world = world_of(contract, seed);
    world.incumbent_fails = 0.005;
    world.slice_fails["language=de"] = 0.2 + 0.02 * static_cast<double>(seed);
    CanaryDecision decision;
    for (int second = 0; second < 200; ++second) {
      decision = world.second(0.005);
      if (decision.action == CanaryAction::route_slice || decision.action == CanaryAction::rollback) break;
    }
    routed += decision.action == CanaryAction::route_slice ? 1 : 0;
  }
  CAPTURE(routed);
  CHECK(routed >= 36);
}
