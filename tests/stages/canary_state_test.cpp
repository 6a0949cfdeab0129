#include <doctest/doctest.h>

#include "stages/canary/canary.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;

namespace {

schema::Contract full_contract() {
  auto contract = make::canary_contract();
  contract.clauses[0].limits.max_ratio = 1.5;
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  auto ttft = make::traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p95},
                            ratio, schema::Stage::canary);
  ttft.severity = schema::Severity::soft;
  contract.clauses.push_back(ttft);
  auto mean = ttft;
  mean.id = "mean";
  std::get<schema::MetricSubject>(mean.subject).aggregate = schema::Aggregate::mean;
  contract.clauses.push_back(mean);
  auto delta = contract.clauses[0];
  delta.id = "delta";
  delta.severity = schema::Severity::soft;
  delta.limits = {};
  delta.limits.max_delta = 0.1;
  delta.slices = {schema::SliceRole::monitored};
  contract.clauses.push_back(delta);
  contract.slices.prompt_length_bounds = {100};
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::route_slice;
  rule.any_slice = true;
  contract.escalation.rules = {rule};
  contract.escalation.recovery = {3, 5'000};
  return contract;
}

CanaryWorld full_world(const schema::Contract& contract, std::uint64_t seed) {
  CanaryWorld world(contract, seed);
  world.slices = {"language=de", "language=en;domain=code", "language=fr", ""};
  if (seed % 3 == 0) world.slice_fails["language=de"] = 0.4;
  return world;
}

void check_same(const CanaryDecision& a, const CanaryDecision& b) {
  CHECK(a.action == b.action);
  CHECK(a.verdict == b.verdict);
  CHECK(a.reasons == b.reasons);
  CHECK(a.split_e_value == b.split_e_value);
  CHECK(a.fallback_slices == b.fallback_slices);
  CHECK(a.notices.size() == b.notices.size());
  CHECK(a.recovered.size() == b.recovered.size());
  REQUIRE(a.verdicts.size() == b.verdicts.size());
  for (std::size_t i = 0; i < a.verdicts.size(); ++i) {
    CHECK(a.verdicts[i].message == b.verdicts[i].message);
    CHECK(a.verdicts[i].e_value == b.verdicts[i].e_value);
  }
}

}  // namespace

TEST_CASE("restarts at random points give the same decisions as none") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const auto contract = full_contract();
    CanaryWorld steady = full_world(contract, seed);
    CanaryWorld restarted = full_world(contract, seed);
    Random restarts(seed + 1'000);
    for (int second = 0; second < 60; ++second) {
      const double fails = second < 20 ? 0 : 0.02 * static_cast<double>(seed % 4);
      (void)steady.state.begin_window("router", static_cast<std::uint64_t>(second) + 1);
      (void)restarted.state.begin_window("router", static_cast<std::uint64_t>(second) + 1);
      for (int i = 0; i < 60; ++i) {
        steady.observe(fails);
        restarted.observe(fails);
        if (restarts.uniform() > 0.02) continue;
        auto restored = CanaryState::deserialise(contract, restarted.state.serialise());
        REQUIRE(restored);
        restarted.state = std::move(*restored);
      }
      steady.now_ms += 1'000;
      restarted.now_ms += 1'000;
      steady.approved = restarted.approved = true;
      const CanaryDecision a = steady.state.decide(steady.context());
      const CanaryDecision b = restarted.state.decide(restarted.context());
      check_same(a, b);
      steady.last = a;
      restarted.last = b;
      steady.follow(a);
      restarted.follow(b);
    }
    CHECK(steady.state.serialise() == restarted.state.serialise());
  }
}

TEST_CASE("a window is counted once, whatever is replayed") {
  auto state = CanaryState::create(make::canary_contract(), {});
  REQUIRE(state);
  CHECK(state->begin_window("router-a", 1));
  CHECK(state->begin_window("router-a", 2));
  CHECK_FALSE(state->begin_window("router-a", 2));
  CHECK_FALSE(state->begin_window("router-a", 1));
  CHECK(state->begin_window("router-b", 1));
  auto restored = CanaryState::deserialise(make::canary_contract(), state->serialise());
  REQUIRE(restored);
  CHECK_FALSE(restored->begin_window("router-a", 2));
  CHECK(restored->begin_window("router-a", 3));
}

TEST_CASE("a state cut short at any byte is refused as damaged") {
  CanaryWorld world = full_world(full_contract(), 1);
  world.per_second = 8;
  world.second(0.5);
  const std::string text = world.state.serialise();
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    const auto restored = CanaryState::deserialise(full_contract(), std::string_view(text).substr(0, size));
    REQUIRE_FALSE(restored);
    CHECK(restored.error().code == schema::ErrorCode::corrupt);
  }
}

TEST_CASE("a state of another contract is refused") {
  CanaryWorld world(make::canary_contract(), 1);
  auto other = make::canary_contract();
  other.digest = "sha256:other";
  const auto restored = CanaryState::deserialise(other, world.state.serialise());
  REQUIRE_FALSE(restored);
  CHECK(restored.error().code == schema::ErrorCode::conflict);
}
