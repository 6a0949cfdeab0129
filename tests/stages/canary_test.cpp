#include "stages/canary/canary.hpp"

#include <doctest/doctest.h>

#include "stages/statistics/random.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

TEST_CASE("a healthy candidate climbs every step, waits for its approval and finishes") {
  CanaryWorld world(make::canary_contract(), 1);
  std::vector<std::string> seen;
  for (int second = 0; second < 200; ++second) {
    const CanaryDecision decision = world.second(0);
    const std::string action(to_string(decision.action));
    if (decision.action != CanaryAction::hold &&
        (seen.empty() || seen.back() != action + std::to_string(world.step))) {
      seen.push_back(action + std::to_string(world.step));
    }
    if (decision.action == CanaryAction::wait_approval) world.approved = true;
    if (decision.action == CanaryAction::finish) {
      CHECK(decision.verdict == Verdict::pass);
      break;
    }
    world.follow(decision);
  }
  CHECK(seen == std::vector<std::string>{"advance0", "wait_approval1", "advance1", "advance2", "finish3"});
  CHECK(world.seconds < 60);
}

TEST_CASE("a step is not left before its soak and its keys") {
  auto contract = make::canary_contract();
  contract.canary->soak_ms = 60'000;
  CanaryWorld world(contract, 1);
  for (int second = 0; second < 59; ++second) CHECK(world.second(0).action == CanaryAction::hold);
  CHECK(world.second(0).action == CanaryAction::advance);
  contract.canary->soak_ms = 0;
  contract.canary->min_keys = 1'000'000;
  CanaryWorld crowd(contract, 1);
  for (int second = 0; second < 100; ++second) CHECK(crowd.second(0).action == CanaryAction::hold);
}

TEST_CASE("a candidate that fails a fifth of its requests is rolled back within seconds") {
  CanaryWorld world(make::canary_contract(), 2);
  for (int second = 0; second < 60; ++second) {
    const CanaryDecision decision = world.second(0.2);
    if (decision.action != CanaryAction::rollback) continue;
    CHECK(decision.verdict == Verdict::violated);
    CHECK(decision.escalation.clause == "runtime.errors");
    CHECK(decision.exposed_requests < 250);
    CHECK(decision.first_failure_us.has_value());
    CHECK(*decision.verdicts.at(0).e_value >= decision.verdicts[0].details.at("e_harm_needed"));
    return;
  }
  FAIL("not rolled back within a minute");
}

TEST_CASE("an engine that begins to fail only at the second step is caught by the process that began there") {
  CanaryWorld world(make::canary_contract(), 3);
  world.approved = false;
  while (world.step == 0) world.follow(world.second(0));
  for (int second = 0; second < 20; ++second) world.follow(world.second(0));
  REQUIRE(world.step == 1);
  for (int second = 0; second < 60; ++second) {
    const CanaryDecision decision = world.second(0.2);
    if (decision.action == CanaryAction::rollback) {
      CHECK(second < 20);
      return;
    }
    world.follow(decision);
  }
  FAIL("not rolled back within a minute");
}

TEST_CASE("telemetry that stops freezes the ramp and then takes the candidate's traffic away") {
  CanaryWorld world(make::canary_contract(), 1);
  world.second(0);
  CanaryContext context = world.context();
  context.telemetry_age_ms = 29'999;
  CHECK(world.state.decide(context).action == CanaryAction::hold);
  context.telemetry_age_ms = 30'000;
  CHECK(world.state.decide(context).action == CanaryAction::freeze);
  context.telemetry_age_ms = 120'000;
  const CanaryDecision decision = world.state.decide(context);
  CHECK(decision.action == CanaryAction::revert);
  CHECK(decision.verdict == Verdict::error);
}

TEST_CASE("traffic that is not split as configured is a broken measurement and freezes") {
  CanaryWorld world(make::canary_contract(), 1);
  world.true_share = 0.3;
  CanaryDecision decision;
  for (int second = 0; second < 30; ++second) decision = world.second(0);
  CHECK(decision.split_alarm);
  CHECK(decision.action == CanaryAction::freeze);
  CHECK(decision.verdict == Verdict::error);
}

TEST_CASE("the longest duration and the largest exposure end in inconclusive") {
  auto contract = make::canary_contract();
  contract.canary->max_duration_ms = 10'000;
  contract.clauses[0].limits.max = 0.0001;
  CanaryWorld world(contract, 1);
  CanaryDecision decision;
  for (int second = 0; second < 10; ++second) decision = world.second(0);
  CHECK(decision.action == CanaryAction::inconclusive);
  CHECK(decision.verdict == Verdict::inconclusive);
  contract.canary->max_duration_ms.reset();
  contract.canary->max_exposure = 50;
  CanaryWorld exposed(contract, 1);
  for (int second = 0; second < 20; ++second) decision = exposed.second(0);
  CHECK(decision.action == CanaryAction::inconclusive);
}

TEST_CASE("a paused promotion does not climb and still rolls back") {
  CanaryWorld world(make::canary_contract(), 1);
  world.paused = true;
  CanaryDecision decision;
  for (int second = 0; second < 60; ++second) decision = world.second(0);
  CHECK(decision.action == CanaryAction::hold);
  CHECK(decision.advance_proven);
  for (int second = 0; second < 120 && decision.action != CanaryAction::rollback; ++second)
    decision = world.second(0.5);
  CHECK(decision.action == CanaryAction::rollback);
}

TEST_CASE("a pause in the bake keeps the candidate's last share") {
  const auto contract = make::canary_contract();
  CanaryWorld world(contract, 1);
  world.approved = true;
  const auto steps = static_cast<std::uint32_t>(contract.canary->steps.size());
  CanaryDecision decision;
  for (int second = 0; second < 600 && world.step < steps; ++second) {
    decision = world.second(0);
    world.follow(decision);
    world.approved = true;
  }
  REQUIRE(world.step == steps);
  world.paused = true;
  for (int second = 0; second < 600; ++second) {
    decision = world.second(0);
    REQUIRE(decision.action == CanaryAction::hold);
  }
  world.paused = false;
  CHECK(world.second(0).action == CanaryAction::finish);
}

TEST_CASE("a holdback of the incumbent stays at the last step") {
  auto state = CanaryState::create(make::canary_contract(), {});
  REQUIRE(state);
  CHECK(state->share_of_step(0) == 1'000);
  CHECK(state->share_of_step(2) == 9'900);
  CHECK(state->share_of_step(3) == 9'900);
}

TEST_CASE("pinned and repeated requests of a key and other people's mistakes are not counted") {
  auto state = CanaryState::create(make::canary_contract(), {});
  REQUIRE(state);
  state->begin_step(0);
  CanaryObservation request;
  request.key_hash = 42;
  request.candidate = true;
  request.candidate_bp = 1'000;
  state->observe(request);
  state->observe(request);
  request.key_hash = 43;
  request.pinned = true;
  state->observe(request);
  request.pinned = false;
  request.outcome = RequestOutcome::excluded;
  state->observe(request);
  const CanaryDecision decision = state->decide({});
  CHECK(decision.verdicts.at(0).n == 1);
  CHECK(decision.exposed_requests == 3);
}

TEST_CASE("keys beyond the limit are not counted and the decision says so") {
  auto state = CanaryState::create(make::canary_contract(), {1, 0, 10});
  REQUIRE(state);
  state->begin_step(0);
  for (std::uint64_t key = 0; key < 12; ++key) {
    CanaryObservation request;
    request.key_hash = key;
    request.candidate = true;
    request.candidate_bp = 1'000;
    state->observe(request);
  }
  const CanaryDecision decision = state->decide({});
  CHECK(decision.keys_full);
  CHECK(decision.verdicts.at(0).n == 10);
}

TEST_CASE("a soft violation freezes, and clean windows after a dwell let the ramp go on") {
  auto contract = make::canary_contract();
  contract.clauses[0].severity = schema::Severity::soft;
  contract.escalation.recovery = {5, 10'000};
  contract.canary->soak_ms = 0;
  CanaryWorld world(contract, 4);
  CanaryDecision decision;
  for (int second = 0; second < 60 && decision.action != CanaryAction::freeze; ++second)
    decision = world.second(0.3);
  REQUIRE(decision.action == CanaryAction::freeze);
  int frozen = 0;
  do {
    decision = world.second(0);
    ++frozen;
  } while (decision.action == CanaryAction::freeze && frozen < 100);
  CHECK(frozen >= 10);
  CHECK(frozen < 60);
  CHECK(decision.action == CanaryAction::advance);
}

TEST_CASE("a candidate slower than its limit is violated on a step and one alike is not") {
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  auto contract = make::latency_contract(schema::Aggregate::p50, ratio);
  contract.canary->soak_ms = 1'000'000;
  CanaryWorld alike(contract, 1);
  CanaryWorld slow(contract, 1);
  slow.candidate_slower = 2;
  int stopped = 0;
  for (int second = 0; second < 120; ++second) {
    CHECK(alike.second(0).action == CanaryAction::hold);
    if (stopped == 0 && slow.second(0).action == CanaryAction::rollback) stopped = second;
  }
  CHECK(stopped > 0);
  CHECK(alike.second(0).verdicts.at(0).verdict == Verdict::pass);
}

TEST_CASE("failures that both arms share are no harm of the candidate and five times as many are") {
  auto contract = make::canary_contract();
  contract.clauses[0].limits = {};
  contract.clauses[0].limits.max_ratio = 1.5;
  contract.canary->soak_ms = 1'000'000;
  CanaryWorld shared(contract, 1, history_of(1'300));
  CanaryWorld worse(contract, 1, history_of(1'300));
  shared.incumbent_fails = worse.incumbent_fails = 0.03;
  int stopped = 0;
  for (int second = 0; second < 200; ++second) {
    CHECK(shared.second(0.03).action == CanaryAction::hold);
    if (stopped == 0 && worse.second(0.15).action == CanaryAction::rollback) stopped = second;
  }
  CHECK(stopped > 0);
}

TEST_CASE("a clause that a canary cannot evaluate is refused when it is created") {
  auto contract = make::canary_contract();
  contract.clauses.push_back(make::traffic("tv", schema::MetricSubject{schema::Metric::tv_sampled, {}},
                                           make::max(0.1), schema::Stage::canary));
  const auto state = CanaryState::create(contract, {});
  REQUIRE_FALSE(state);
  CHECK(state.error().code == schema::ErrorCode::unsupported);
  CHECK(state.error().message.find("runtime.tv") != std::string::npos);
}

TEST_CASE("the largest exposure ends a step that waits for its soak or its approval") {
  auto contract = make::canary_contract();
  contract.canary->max_exposure = 300;
  contract.canary->soak_ms = 3'600'000;
  CanaryWorld soaking(contract, 1);
  CanaryDecision decision;
  for (int second = 0; second < 600 && decision.action != CanaryAction::inconclusive; ++second) {
    decision = soaking.second(0);
    CHECK(decision.keys_in_step <= 300 + 60);
  }
  CHECK(decision.advance_proven);
  CHECK(decision.action == CanaryAction::inconclusive);
  CHECK(decision.verdict == Verdict::inconclusive);
  contract.canary->soak_ms = 0;
  contract.canary->steps[0].approval = true;
  CanaryWorld waiting(contract, 1);
  bool waited = false;
  for (int second = 0; second < 600; ++second) {
    decision = waiting.second(0);
    waited = waited || decision.action == CanaryAction::wait_approval;
    if (decision.action == CanaryAction::inconclusive) break;
  }
  CHECK(waited);
  CHECK(decision.action == CanaryAction::inconclusive);
}

TEST_CASE("signals that a canary cannot count are carried from shadow-runtime with their age") {
  auto contract = make::canary_contract();
  schema::Limits least;
  least.min_count = 500;
  contract.clauses.push_back(make::clause(schema::Family::observability, "pairs",
                                          schema::SignalSubject{schema::Metric::shadow_pairs}, least,
                                          schema::Stage::canary));
  CanaryWorld world(contract, 1);
  CHECK(world.second(0).verdicts.size() == 1);
  CanaryContext context = world.context();
  schema::ClauseVerdict pairs;
  pairs.clause = "observability.pairs";
  pairs.verdict = Verdict::pass;
  pairs.rule = schema::VerdictRule::count_at_least;
  pairs.limit_kind = "min_count";
  pairs.estimate = 510;
  pairs.threshold = 500;
  pairs.method = "count";
  context.carried = {pairs};
  context.carried_age_ms = 61'000;
  const CanaryDecision decision = world.state.decide(context);
  REQUIRE(decision.verdicts.size() == 2);
  CHECK(decision.verdicts[1].verdict == Verdict::pass);
  CHECK(decision.verdicts[1].details.at("carried_age_ms") == 61'000);
  CHECK(decision.verdicts[1].message.find("61 s ago") != std::string::npos);
  // A soft clause that failed there was answered there.
  context.carried[0].estimate = 10;
  context.carried[0].rule = schema::VerdictRule::share_at_least;
  context.carried[0].verdict = Verdict::violated;
  context.carried[0].severity = schema::Severity::soft;
  CHECK(world.state.decide(context).action == CanaryAction::hold);
}

TEST_CASE("a difference of failure rates stops what fails more and lets alike arms advance") {
  auto contract = make::canary_contract();
  schema::Limits delta;
  delta.max_delta = 0.05;
  contract.clauses[0].limits = delta;
  CanaryWorld worse(contract, 1);
  CanaryDecision decision;
  for (int second = 0; second < 300 && decision.action != CanaryAction::rollback; ++second)
    decision = worse.second(0.3);
  CHECK(decision.action == CanaryAction::rollback);
  CHECK(decision.exposed_keys < 600);
  CHECK(decision.verdicts.at(0).limit_kind == "max_delta");
  CanaryWorld alike(contract, 1);
  alike.incumbent_fails = 0.02;
  for (int second = 0; second < 600 && decision.action != CanaryAction::advance; ++second)
    decision = alike.second(0.02);
  CHECK(decision.action == CanaryAction::advance);
}
