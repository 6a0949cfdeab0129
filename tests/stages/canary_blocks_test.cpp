#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "stages/canary/canary.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

namespace {

schema::Contract ratio_contract(double max_ratio = 1.5) {
  auto contract = make::canary_contract();
  contract.clauses[0].limits = {};
  contract.clauses[0].limits.max_ratio = max_ratio;
  contract.canary->soak_ms = 10'000'000;
  return contract;
}

schema::Contract sliced_contract() {
  auto contract = make::canary_contract();
  contract.clauses[0].limits.max_ratio = 1.5;
  contract.canary->soak_ms = 10'000'000;
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::route_slice;
  rule.any_slice = true;
  contract.escalation.rules = {rule};
  return contract;
}

const schema::ClauseVerdict& ratio_of(const CanaryDecision& decision) {
  const auto found = std::ranges::find_if(decision.verdicts, [](const schema::ClauseVerdict& verdict) {
    return verdict.limit_kind == "max_ratio" && verdict.where.empty();
  });
  REQUIRE(found != decision.verdicts.end());
  return *found;
}

}  // namespace

TEST_CASE("single failures count once the incumbent was seen for twenty minutes, and blocks always") {
  CanaryWorld world(ratio_contract(), 1, history_of(1'140));
  world.incumbent_fails = 0.01;
  auto verdict = ratio_of(world.second(0.01));
  CHECK(verdict.approximate);
  CHECK(verdict.details.at("label_part") == 0);
  CHECK(verdict.details.at("history_s") == doctest::Approx(1'140).epsilon(0.01));
  CHECK(verdict.message.find("only once the incumbent has been observed for 1200 s") != std::string::npos);
  CHECK(verdict.message.find("0 of 30 blocks") != std::string::npos);
  for (int second = 0; second < 120; ++second) verdict = ratio_of(world.second(0.01));
  CAPTURE(verdict.message);
  CHECK(verdict.details.at("label_part") == 0.6);
  const double both = 0.6 * verdict.details.at("e_label") + 0.4 * verdict.details.at("e_blocks");
  CHECK(*verdict.e_value == doctest::Approx(both));
}

TEST_CASE("without a history blocks of time convict, and not before thirty of them") {
  CanaryWorld world(ratio_contract(), 2);
  world.incumbent_fails = 0.01;
  CanaryDecision decision;
  while (decision.action != CanaryAction::rollback && world.seconds < 1'000) {
    decision = world.second(0.08);
    const auto& verdict = ratio_of(decision);
    if (verdict.details.at("blocks") < 30) REQUIRE(verdict.verdict == Verdict::pass);
    REQUIRE(verdict.details.at("label_part") == 0);
  }
  REQUIRE(decision.action == CanaryAction::rollback);
  const auto& verdict = ratio_of(decision);
  CHECK(verdict.verdict == Verdict::violated);
  CHECK(*verdict.estimate > 4);
  CHECK(verdict.clusters == verdict.details.at("blocks"));
  CHECK(world.seconds >= 345);
  CHECK(world.seconds < 480);
}

TEST_CASE("a stall of either arm stops the count of single failures for good, over restarts") {
  for (const bool candidate_stalls : {false, true}) {
    CAPTURE(candidate_stalls);
    CanaryWorld world(ratio_contract(), 3, history_of(1'500));
    for (int second = 0; second < 20; ++second)
      CHECK(ratio_of(world.second(0)).details.at("label_part") == 0.6);
    // All that one arm serves within three seconds fails.
    for (int second = 0; second < 3; ++second) {
      world.incumbent_fails = candidate_stalls ? 0 : 1;
      world.second(candidate_stalls ? 1 : 0);
    }
    world.incumbent_fails = 0;
    auto decision = world.second(0);
    CHECK(decision.action == CanaryAction::hold);
    CHECK(ratio_of(decision).details.at("label_part") == 0);
    CHECK(ratio_of(decision).message.find("Failures are clustered in time") != std::string::npos);
    auto restored = CanaryState::deserialise(world.contract, world.state.serialise());
    REQUIRE(restored);
    world.state = std::move(*restored);
    for (int second = 0; second < 30; ++second) decision = world.second(0);
    CHECK(ratio_of(decision).details.at("label_part") == 0);
    CHECK(decision.action == CanaryAction::hold);
  }
}

TEST_CASE(
    "a block lasts three times the incumbent's longest stall before the canary, or as the contract says") {
  auto contract = ratio_contract();
  CHECK(block_ms(*contract.canary, history_of(1'500)) == 12'000);
  const std::int64_t stalled = block_ms(*contract.canary, history_of(1'500, 0.01, 10));
  CHECK(stalled >= 28'000);
  CHECK(stalled <= 34'000);
  CanaryWorld world(contract, 4, history_of(1'500, 0.01, 10));
  // A longer stall within the canary changes no block: their length was fixed before it.
  world.incumbent_fails = 1;
  for (int second = 0; second < 30; ++second) world.second(0);
  world.incumbent_fails = 0;
  const auto verdict = ratio_of(world.second(0));
  CHECK(verdict.details.at("block_s") == doctest::Approx(static_cast<double>(stalled) / 1'000));
  CHECK(verdict.details.at("longest_stall_s") > 25);
  auto restored = CanaryState::deserialise(contract, world.state.serialise());
  REQUIRE(restored);
  CHECK(ratio_of(restored->decide(world.context())).details.at("block_s") == verdict.details.at("block_s"));
  contract.canary->burst_ms = 2'000;
  CHECK(block_ms(*contract.canary, history_of(1'500, 0.01, 10)) == 2'000);
}

TEST_CASE("a step begins its own thirty blocks, and says how many it has") {
  auto contract = ratio_contract();
  contract.canary->burst_ms = 1'000;
  CanaryWorld world(contract, 5);
  world.incumbent_fails = 0.01;
  CanaryDecision decision;
  for (int second = 0; second < 45; ++second) decision = world.second(0.01);
  CHECK(ratio_of(decision).details.at("blocks_of_step") >= 40);
  CHECK(ratio_of(decision).message.find("not evaluable") == std::string::npos);
  world.step = 1;
  world.state.begin_step(1);
  for (int second = 0; second < 10; ++second) decision = world.second(0.01);
  CHECK(ratio_of(decision).details.at("blocks_of_step") <= 10);
  CHECK(ratio_of(decision).details.at("blocks") >= 50);
  CHECK(ratio_of(decision).message.find("not evaluable at this step yet") != std::string::npos);
}

TEST_CASE("half of the level is for all traffic, in parts by severity, and half is shared by the slices") {
  const double alpha = 0.005;  // the first attempt's half of 0.01
  CanaryWorld plain(ratio_contract(), 6);
  CHECK(ratio_of(plain.second(0)).details.at("e_harm_needed") == doctest::Approx(1 / alpha));
  auto contract = sliced_contract();
  CanaryWorld sliced(contract, 6);
  sliced.slices = {"language=de", "language=en"};
  const auto decision = sliced.second(0);
  CHECK(ratio_of(decision).details.at("e_harm_needed") == doctest::Approx(2 * 2 / alpha));
  for (const auto& verdict : decision.verdicts) {
    if (verdict.where.empty()) continue;
    CHECK(verdict.details.at("e_harm_needed") == doctest::Approx(2 * 32 / alpha));
  }
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  auto soft = make::traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p50},
                            ratio, schema::Stage::canary);
  soft.severity = schema::Severity::soft;
  contract.clauses.push_back(soft);
  CanaryWorld mixed(contract, 6);
  CHECK(ratio_of(mixed.second(0)).details.at("e_harm_needed") == doctest::Approx(2 * 9 / (4 * alpha)));
}

TEST_CASE(
    "all traffic waits for a slice that accounts for its harm, and not for harm that all slices share") {
  int waited = 0, routed = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CanaryWorld one(sliced_contract(), seed, history_of(1'300, 0.002));
    one.slices = {"language=de", "language=en", "language=fr"};
    one.incumbent_fails = 0.002;
    one.slice_fails["language=de"] = 0.04;
    CanaryDecision decision;
    bool waits = false;
    for (int second = 0; second < 600; ++second) {
      decision = one.second(0.002);
      if (decision.action == CanaryAction::route_slice || decision.action == CanaryAction::rollback) break;
      waits = waits || std::ranges::any_of(decision.verdicts, [](const schema::ClauseVerdict& verdict) {
                return verdict.message.find("left to them until") != std::string::npos;
              });
    }
    routed += decision.action == CanaryAction::route_slice ? 1 : 0;
    waited += waits ? 1 : 0;
  }
  CAPTURE(routed);
  CHECK(routed >= 9);
  CHECK(waited > 0);
  CanaryDecision decision;
  CanaryWorld all(sliced_contract(), 7, history_of(1'300));
  all.slices = {"language=de", "language=en", "language=fr", "language=it"};
  all.incumbent_fails = 0.01;
  for (int second = 0; second < 400 && decision.action != CanaryAction::rollback; ++second)
    decision = all.second(0.045);
  CHECK(decision.action == CanaryAction::rollback);
  CHECK(decision.fallback_slices.empty());
}

TEST_CASE("a state from before there were blocks is read, and its blocks begin there") {
  CanaryWorld world(sliced_contract(), 8);
  world.incumbent_fails = 0.02;
  for (int second = 0; second < 60; ++second) world.second(0.02);
  const double label = ratio_of(world.last).details.at("e_label");
  auto old = nlohmann::json::parse(world.state.serialise());
  old["version"] = 2;
  for (const char* name : {"block_us", "incumbent", "candidate", "dependent"}) old.erase(name);
  for (auto& stream : old["rates"]) {
    stream["state"].erase("blocks");
    stream["state"].erase("open_block");
  }
  auto restored = CanaryState::deserialise(world.contract, old.dump());
  REQUIRE(restored);
  world.state = std::move(*restored);
  const auto verdict = ratio_of(world.state.decide(world.context()));
  CHECK(verdict.details.at("e_label") == label);
  CHECK(verdict.details.at("label_part") == 0);
  CHECK(verdict.details.at("blocks") == 0);
  CHECK(verdict.details.at("block_s") == 12);
  for (int second = 0; second < 30; ++second) world.second(0.02);
  CHECK(ratio_of(world.last).details.at("blocks") == 2);
  old["version"] = 1;
  const auto refused = CanaryState::deserialise(world.contract, old.dump());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::unsupported);
}

namespace {

/// Four hours of an incumbent that served 20 requests a second, of which `rate` failed, and up to e^swing
/// times as many and as few within 40 minutes.
constexpr std::int64_t kSwingingEndsMs = 20'000'000;
FailureHistory swinging(double rate, double swing) {
  FailureHistory history;
  Random random(98);
  constexpr std::int64_t kRequests = 4 * 3'600 * 20;
  for (std::int64_t i = 0; i < kRequests; ++i) {
    const double turn = static_cast<double>(i) / (40 * 60 * 20);
    const double now = rate * std::exp(swing * std::sin(2 * std::numbers::pi * turn));
    history.observe(random.next(), false, random.uniform() < now,
                    kSwingingEndsMs * 1'000 - 50'000 * (kRequests - i));
  }
  return history;
}

double sum_of_parts(const schema::ClauseVerdict& verdict) {
  const auto& details = verdict.details;
  return details.at("label_part") * details.at("e_label") +
         details.at("blocks_part") * details.at("e_blocks") +
         details.at("signs_part") * details.at("e_signs");
}

}  // namespace

TEST_CASE("at a max_ratio of 1 signs of blocks have a part as well") {
  CanaryWorld world(ratio_contract(1), 11, history_of(1'500));
  world.incumbent_fails = 0.01;
  schema::ClauseVerdict verdict;
  for (int second = 0; second < 1'300; ++second) verdict = ratio_of(world.second(0.01));
  CHECK(verdict.details.at("label_part") == 0.6);
  CHECK(verdict.details.at("blocks_part") == 0.2);
  CHECK(verdict.details.at("signs_part") == 0.2);
  CHECK(verdict.details.at("blocks_up") + verdict.details.at("blocks_down") > 50);
  CHECK(verdict.details.at("e_signs") != 1);
  CHECK(*verdict.e_value == doctest::Approx(sum_of_parts(verdict)));
  CHECK(verdict.message.find("in less than 4 h slow changes") != std::string::npos);
  CHECK_FALSE(ratio_of(CanaryWorld(ratio_contract(), 11).second(0)).details.contains("e_signs"));
}

TEST_CASE("what an incumbent swings by itself is allowed to the candidate, over restarts") {
  CanaryWorld steady(ratio_contract(1), 12, swinging(0.01, 0));
  steady.now_ms = steady.step_started_ms = kSwingingEndsMs;
  CHECK(ratio_of(steady.second(0)).message.find("slow changes") == std::string::npos);
  CHECK(steady.last.verdicts.at(0).message.find("swing") == std::string::npos);
  CanaryWorld world(ratio_contract(1), 12, swinging(0.01, 1));
  world.now_ms = world.step_started_ms = kSwingingEndsMs;
  world.incumbent_fails = steady.incumbent_fails = 0.01;
  auto verdict = ratio_of(world.second(0.02));
  CAPTURE(verdict.message);
  CHECK(verdict.details.at("label_part") == 0.6);
  CHECK(verdict.details.at("failures_inflation") > 10);
  CHECK(verdict.details.at("signs_inflation") > 0);
  CHECK(verdict.message.find("The incumbent's failure rate swings: over") != std::string::npos);
  for (int second = 0; second < 1'500; ++second) {
    world.second(0.02);
    steady.second(0.02);
  }
  auto restored = CanaryState::deserialise(world.contract, world.state.serialise());
  REQUIRE(restored);
  verdict = ratio_of(restored->decide(world.context()));
  CHECK(*verdict.e_value == ratio_of(world.last).e_value);
  CHECK(*verdict.e_value == doctest::Approx(sum_of_parts(verdict)));
  for (const char* part : {"e_label", "e_blocks", "e_signs"}) {
    CAPTURE(part);
    CHECK(verdict.details.at(part) < ratio_of(steady.last).details.at(part));
  }
}

TEST_CASE("where the contract says that swings are shared the candidate is allowed none of its own") {
  auto contract = ratio_contract(1);
  std::map<schema::Swings, CanaryWorld> worlds;
  for (const auto swings : {schema::Swings::own, schema::Swings::shared}) {
    contract.assumptions.swings = swings;
    CanaryWorld& world = worlds.emplace(swings, CanaryWorld(contract, 12, swinging(0.01, 1))).first->second;
    world.now_ms = world.step_started_ms = kSwingingEndsMs;
    world.incumbent_fails = 0.01;
    for (int second = 0; second < 1'500; ++second) world.second(0.02);
  }
  const auto& own = ratio_of(worlds.at(schema::Swings::own).last);
  const auto& shared = ratio_of(worlds.at(schema::Swings::shared).last);
  CHECK(shared.details.at("failures_inflation") == 0);
  CHECK(shared.details.at("signs_inflation") == 0);
  CHECK(*shared.e_value > 10 * *own.e_value);
  CHECK(shared.message.find("(assumptions.swings)") != std::string::npos);
}

TEST_CASE(
    "a canary of the version before keeps its signs, and a rate that wandered counts no single failure") {
  CanaryWorld world(ratio_contract(1), 13, history_of(1'500));
  for (int second = 0; second < 60; ++second) world.second(0.01);
  auto old = nlohmann::json::parse(world.state.serialise());
  old["version"] = 5;
  old["wanders"] = true;
  old["ratio_plan"][2] = 1.5;
  for (auto& process : old["rates"][0]["state"]["signs"]) {
    process.erase(4);
    process.erase(3);
  }
  for (auto& process : old["rates"][0]["state"]["blocks"]) process.erase(6);
  auto restored = CanaryState::deserialise(world.contract, old.dump());
  REQUIRE(restored);
  const auto verdict = ratio_of(restored->decide(world.context()));
  CHECK(verdict.details.at("label_part") == 0);
  CHECK(verdict.details.at("blocks_part") == 0.2);
  CHECK(verdict.details.at("signs_inflation") == 1.5);
  CHECK(verdict.details.at("blocks_up") == ratio_of(world.last).details.at("blocks_up"));
}

TEST_CASE("a canary that began before there were signs ends with the parts that it began with") {
  CanaryWorld world(ratio_contract(1), 13, history_of(1'500));
  auto old = nlohmann::json::parse(world.state.serialise());
  old["version"] = 4;
  for (const char* name : {"ratio_plan", "incumbent_latency"}) old.erase(name);
  for (auto& stream : old["rates"]) stream["state"].erase("signs");
  for (const char* arm : {"incumbent", "candidate"}) {
    old[arm].erase("wander");
    old[arm].erase("scores");
  }
  auto restored = CanaryState::deserialise(world.contract, old.dump());
  REQUIRE(restored);
  world.state = std::move(*restored);
  world.incumbent_fails = 0.01;
  schema::ClauseVerdict verdict;
  for (int second = 0; second < 120; ++second) verdict = ratio_of(world.second(0.01));
  CHECK(verdict.details.at("label_part") == 0.6);
  CHECK(verdict.details.at("blocks_part") == 0.4);
  CHECK_FALSE(verdict.details.contains("signs_part"));
}
