#include <doctest/doctest.h>

#include <algorithm>

#include "schema/verdict_rule.hpp"
#include "stages/canary/canary.hpp"
#include "tests/stages/canary_world.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

namespace {

CanaryDecision decided(CanaryState& state, std::int64_t open_ms) {
  CanaryContext context;
  context.now_ms = 10'000;
  context.engine_down = EngineDown{open_ms, 3, "first_byte", 9'000'000};
  return state.decide(context);
}

CanaryState begun(const schema::Contract& contract, const FailureHistory& incumbent = {}) {
  auto state = CanaryState::create(contract, {1, 1, kDefaultMaxKeys, incumbent});
  REQUIRE(state.has_value());
  state->begin_step(0);
  return std::move(*state);
}

const schema::ClauseVerdict* outage_in(const CanaryDecision& decision) {
  const auto found =
      std::ranges::find(decision.verdicts, std::string(kBreakerLimit), &schema::ClauseVerdict::limit_kind);
  return found == decision.verdicts.end() ? nullptr : &*found;
}

CanaryObservation request_of(std::uint64_t key, bool withheld) {
  CanaryObservation request;
  request.key_hash = key;
  request.candidate = true;
  request.candidate_bp = 1'000;
  request.withheld = withheld;
  request.outcome = withheld ? RequestOutcome::failed : RequestOutcome::ok;
  request.routed_us = 5'000'000;
  return request;
}

}  // namespace

TEST_CASE(
    "an engine that does not answer for longer than a second is harm, and what the policy says is done") {
  auto state = begun(make::canary_contract());
  const auto patient = decided(state, kBreakerPatienceMs);
  CHECK(patient.action == CanaryAction::hold);
  CHECK(outage_in(patient) == nullptr);
  const auto decision = decided(state, kBreakerPatienceMs + 1);
  CHECK(decision.action == CanaryAction::rollback);
  CHECK(decision.verdict == Verdict::violated);
  CHECK(decision.escalation.clause == "runtime.errors");
  CHECK(decision.first_failure_us == 9'000'000);
  const auto* verdict = outage_in(decision);
  REQUIRE(verdict != nullptr);
  CHECK(verdict->rule == schema::VerdictRule::census);
  CHECK(verdict->estimate == 1.001);
  CHECK(verdict->threshold == 1.0);
  CHECK(schema::rederive(*verdict) == Verdict::violated);
}

TEST_CASE("a rule for the clause decides what an engine that does not answer leads to") {
  auto contract = make::canary_contract();
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::freeze;
  contract.escalation.rules = {rule};
  auto state = begun(contract);
  const auto decision = decided(state, 5'000);
  CHECK(decision.action == CanaryAction::freeze);
  CHECK(decision.escalation.rule == "rule runtime.errors → freeze");
}

TEST_CASE("a limit against the incumbent allows for the longest stall of the incumbent") {
  auto contract = make::canary_contract();
  contract.clauses[0].limits = {};
  contract.clauses[0].limits.max_ratio = 1.5;
  const auto history = history_of(1'500, 0.01, 5);
  REQUIRE(history.longest_stall_s() > 3);
  auto state = begun(contract, history);
  const auto within = static_cast<std::int64_t>(1'000 * history.longest_stall_s());
  CHECK(outage_in(decided(state, within - 1)) == nullptr);
  CHECK(decided(state, within + 100).action == CanaryAction::rollback);
}

TEST_CASE(
    "without a clause on failures an engine that does not answer loses its traffic, and nobody is "
    "convicted") {
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  auto contract = make::latency_contract(schema::Aggregate::p95, ratio);
  auto state = begun(contract);
  CHECK(decided(state, kBreakerPatienceMs).action == CanaryAction::hold);
  const auto decision = decided(state, 2'000);
  CHECK(decision.action == CanaryAction::revert);
  CHECK(decision.verdict == Verdict::error);
}

TEST_CASE("what was withheld from the candidate is its failure and no exposure to it") {
  const auto contract = make::canary_contract();
  auto state = begun(contract);
  for (std::uint64_t key = 1; key <= 10; ++key) state.observe(request_of(key, true));
  auto decision = state.decide({});
  CHECK(decision.failed_keys_candidate == 10);
  CHECK(decision.failed_requests_candidate == 10);
  CHECK(decision.exposed_requests == 0);
  CHECK(decision.exposed_keys == 0);
  CHECK(decision.keys_in_step == 0);
  CHECK(decision.verdicts.at(0).n == 10);
  CHECK(decision.first_failure_us == 5'000'000);
  // Served later, the same users are exposed for the first time, and were judged by their first request.
  auto restored = CanaryState::deserialise(contract, state.serialise());
  REQUIRE(restored.has_value());
  for (std::uint64_t key = 1; key <= 10; ++key) restored->observe(request_of(key, false));
  decision = restored->decide({});
  CHECK(decision.exposed_requests == 10);
  CHECK(decision.exposed_keys == 10);
  CHECK(decision.keys_in_step == 10);
  CHECK(decision.verdicts.at(0).n == 10);
  CHECK(decision.failed_keys_candidate == 10);
}

TEST_CASE(
    "a candidate that answers only while it is not in the way is convicted by what was withheld from it") {
  // Healthy whenever it is asked, away a third of the time: its users' requests are withheld then.
  auto state = begun(make::canary_contract());
  bool rolled_back = false;
  for (std::uint64_t key = 1; key <= 300 && !rolled_back; ++key) {
    state.observe(request_of(key, key % 3 == 0));
    rolled_back = state.decide({}).action == CanaryAction::rollback;
  }
  CHECK(rolled_back);
}
