#include <doctest/doctest.h>

#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

TEST_CASE("a candidate as slow as its incumbent is violated when both are beyond the max") {
  schema::Limits both;
  both.max_ratio = 1.5;
  both.max = 20;  // the world's latencies are 20 to 30 ms
  auto contract = make::latency_contract(schema::Aggregate::p50, both);
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

TEST_CASE("a mean latency is decided on its geometric mean, and not before 500 keys of each arm") {
  schema::Limits ratio;
  ratio.max_ratio = 1.1;
  auto contract = make::latency_contract(schema::Aggregate::mean, ratio);
  contract.clauses[0].require = schema::Requirement::proof;
  contract.canary->soak_ms = 1'000'000;
  CanaryWorld slower(contract, 1);
  slower.candidate_slower = 1.5;
  CanaryDecision decision;
  for (int second = 0; second < 300 && decision.action != CanaryAction::rollback; ++second) {
    decision = slower.second(0);
    const auto& verdict = decision.verdicts.at(0);
    if (verdict.n < 500) CHECK(verdict.verdict == Verdict::inconclusive);
  }
  CHECK(decision.action == CanaryAction::rollback);
  CHECK(decision.verdicts.at(0).n >= 500);
  CHECK(decision.verdicts[0].approximate);
  CHECK(decision.verdicts[0].method.find("asymptotic") != std::string::npos);
  CHECK(decision.verdicts[0].method.find("geometric mean") != std::string::npos);
  CanaryWorld alike(contract, 1);
  alike.per_second = 600;
  for (int second = 0; second < 100 && !decision.advance_proven; ++second) decision = alike.second(0);
  CHECK(decision.advance_proven);
}

TEST_CASE("a difference of latencies is held against both arms") {
  schema::Limits delta;
  delta.max_delta = 5;
  auto contract = make::latency_contract(schema::Aggregate::p50, delta);
  CanaryWorld slower(contract, 1);
  slower.candidate_slower = 1.5;  // 12.5 ms at the median
  CanaryDecision decision;
  for (int second = 0; second < 200 && decision.action != CanaryAction::rollback; ++second)
    decision = slower.second(0);
  CHECK(decision.action == CanaryAction::rollback);
  CHECK(decision.verdicts.at(0).limit_kind == "max_delta");
  CanaryWorld alike(contract, 1);
  for (int second = 0; second < 100; ++second) CHECK(alike.second(0).action != CanaryAction::rollback);
}

TEST_CASE("above half of the traffic a relative latency is not evaluable and says so") {
  schema::Limits ratio;
  ratio.max_ratio = 1.1;
  auto contract = make::latency_contract(schema::Aggregate::mean, ratio);
  contract.canary->steps = {{6'000, false}, {10'000, false}};
  contract.canary->soak_ms = 1'000'000;
  CanaryWorld world(contract, 1);
  world.candidate_slower = 3;
  CanaryDecision decision;
  for (int second = 0; second < 60; ++second) decision = world.second(0);
  CHECK(decision.verdicts.at(0).verdict == Verdict::pass);
  CHECK(decision.verdicts[0].n == 0);
  CHECK(decision.verdicts[0].details.at("not_evaluable") > 0);
  CHECK(decision.verdicts[0].message.find("not evaluable") != std::string::npos);
}

TEST_CASE(
    "a user who returns gives one latency in ten minutes, and his latencies count as fewer than those of "
    "others") {
  schema::Limits most;
  most.max = 1'000;
  auto contract = make::latency_contract(schema::Aggregate::p95, most);
  // The 300 answers of so many users in ten hours.
  const auto verdict_of = [&](std::uint64_t users) {
    CanaryWorld world(contract, 1);
    for (std::uint64_t i = 0; i < 300; ++i) {
      CanaryObservation seen;
      seen.candidate = true;
      seen.candidate_bp = world.state.share_of_step(0);
      seen.key_hash = mix64(i % users);
      seen.routed_us = world.now_ms * 1'000 + static_cast<std::int64_t>(i / users) * 36'000'000'000 / 300;
      seen.outcome = RequestOutcome::ok;
      seen.latency.ttft_ms = 20 + 10 * static_cast<double>(i % users) / static_cast<double>(users);
      world.state.observe(seen);
    }
    return world.state.decide(world.context()).verdicts.at(0);
  };
  const auto many = verdict_of(300), some = verdict_of(30), one = verdict_of(1);
  CHECK(many.n == 300);
  CHECK(many.details.at("inflation_candidate") == 1);
  CHECK_FALSE(many.approximate);
  CHECK(some.n <= 30 * 3);  // within eighteen minutes
  CHECK(some.n > 30);
  CHECK(some.details.at("inflation_candidate") > 1);
  CHECK(some.approximate);
  CHECK(some.details.at("candidate_upper") >= many.details.at("candidate_upper"));
  CHECK(one.n >= 60);  // ten hours have 60 times ten minutes
  CHECK(one.n <= 61);
  CHECK(one.details.at("inflation_candidate") > 10);
}

TEST_CASE("a candidate that slows down for minutes is no worse than an incumbent that does") {
  schema::Limits ratio;
  ratio.max_ratio = 1.1;
  auto contract = make::latency_contract(schema::Aggregate::p95, ratio);
  contract.canary->soak_ms = 10'000'000;
  // Four hours of an incumbent that is three times as slow in three minutes of each half hour.
  CanarySettings settings;
  Random random(5);
  for (int i = 0; i < 20 * 14'400; ++i) {
    Latencies latencies;
    latencies.ttft_ms = (i / 20 % 1'800 < 180 ? 3 : 1) * (20 + 10 * random.uniform());
    settings.incumbent_latency.observe(latencies, 1'000'000 + 50'000LL * i, 1);
  }
  for (const bool known : {true, false}) {
    CAPTURE(known);
    CanaryWorld world(contract, 3);
    if (known) {
      auto state = CanaryState::create(contract, settings);
      REQUIRE(state);
      world.state = std::move(*state);
      world.state.begin_step(0);
    }
    world.now_ms = world.step_started_ms = 16'000'000;
    world.per_second = 200;
    CanaryDecision decision;
    for (int second = 0; second < 180 && decision.action != CanaryAction::rollback; ++second) {
      world.candidate_slower = second < 90 ? 1 : 3;
      decision = world.second(0);
    }
    const auto verdict = decision.verdicts.at(0);
    CAPTURE(verdict.message);
    CHECK((decision.action == CanaryAction::rollback) != known);
    CHECK(verdict.details.contains("wander_inflation") == known);
    CHECK(verdict.approximate == known);
    if (!known) continue;
    CHECK(verdict.details.at("wander_s") >= 128);
    CHECK(verdict.message.find("The incumbent's latency changes by itself over") != std::string::npos);
    const auto restored = CanaryState::deserialise(contract, world.state.serialise());
    REQUIRE(restored);
    CHECK(restored->serialise() == world.state.serialise());
    CHECK(restored->promoted().latencies.at(0).upper_ms == world.state.promoted().latencies.at(0).upper_ms);
  }
}
