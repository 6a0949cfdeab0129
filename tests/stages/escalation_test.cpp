#include "stages/escalation.hpp"

#include <doctest/doctest.h>

using namespace driftgate;
using namespace driftgate::stages;
using schema::Action;
using schema::Stage;

namespace {
schema::ClauseVerdict violated(std::string clause, schema::Severity severity = schema::Severity::hard,
                               schema::SliceWhere where = {}) {
  schema::ClauseVerdict verdict;
  verdict.clause = std::move(clause);
  verdict.severity = severity;
  verdict.where = std::move(where);
  verdict.verdict = schema::Verdict::violated;
  return verdict;
}
schema::EscalationRule rule(std::string match, Action action) {
  schema::EscalationRule result;
  result.match = std::move(match);
  result.action = action;
  return result;
}
}  // namespace

TEST_CASE("nothing is ordered when nothing is violated") {
  const auto decision = escalate({}, Stage::canary, {schema::ClauseVerdict{}});
  CHECK_FALSE(decision.acted);
}

TEST_CASE("what no rule matches gets the default of its severity") {
  CHECK(escalate({}, Stage::canary, {violated("runtime.errors")}).action == Action::rollback);
  CHECK(escalate({}, Stage::canary, {violated("runtime.ttft", schema::Severity::soft)}).action ==
        Action::freeze);
}

TEST_CASE("of all matching rules the strongest action wins, whatever their order") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.ttft", Action::step_back), rule("runtime.*", Action::freeze)};
  CHECK(escalate(policy, Stage::canary, {violated("runtime.ttft")}).action == Action::step_back);
  std::swap(policy.rules[0], policy.rules[1]);
  CHECK(escalate(policy, Stage::canary, {violated("runtime.ttft")}).action == Action::step_back);
}

TEST_CASE("over all verdicts the strongest action wins and its clause is named") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.ttft", Action::log)};
  const auto decision =
      escalate(policy, Stage::canary, {violated("runtime.ttft"), violated("runtime.errors")});
  CHECK(decision.action == Action::rollback);
  CHECK(decision.clause == "runtime.errors");
}

TEST_CASE("a rule for another stage, severity or slice does not match") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.errors", Action::log)};
  policy.rules[0].stage = Stage::shadow_runtime;
  CHECK(escalate(policy, Stage::canary, {violated("runtime.errors")}).action == Action::rollback);
  policy.rules[0].stage.reset();
  CHECK(escalate(policy, Stage::canary, {violated("runtime.errors")}).action == Action::log);
  const auto sliced = violated("runtime.errors", schema::Severity::hard, {{"language", "de"}});
  CHECK(escalate(policy, Stage::canary, {sliced}).action == Action::rollback);
  policy.rules[0].any_slice = true;
  CHECK(escalate(policy, Stage::canary, {sliced}).action == Action::log);
}

TEST_CASE("a prefix that is not a family does not match") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.*", Action::log)};
  CHECK(escalate(policy, Stage::canary, {violated("runtimes.errors")}).action == Action::rollback);
}

TEST_CASE("a slice is routed away and all traffic, which has no slice, gets its default") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.errors", Action::route_slice), rule("runtime.errors", Action::notify)};
  policy.rules[0].any_slice = true;
  const auto german = violated("runtime.errors", schema::Severity::hard, {{"language", "de"}});
  const auto sliced = escalate(policy, Stage::canary, {german});
  CHECK(sliced.action == Action::route_slice);
  CHECK(sliced.where == schema::SliceWhere{{"language", "de"}});
  policy.rules.pop_back();
  const auto whole = escalate(policy, Stage::canary, {violated("runtime.errors")});
  CHECK(whole.action == Action::rollback);
  CHECK(whole.rule == "default of hard → rollback");
}

TEST_CASE("every verdict has its order, and what changes no weight stands beside the strongest") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.errors", Action::freeze), rule("runtime.errors", Action::notify),
                  rule("runtime.*", Action::sample), rule("runtime.ttft", Action::step_back)};
  const auto decision =
      escalate(policy, Stage::canary, {violated("runtime.errors"), violated("runtime.ttft")});
  CHECK(decision.action == Action::step_back);
  REQUIRE(decision.orders.size() == 2);
  CHECK(decision.orders[0].clause == "runtime.ttft");
  CHECK(decision.orders[1].action == Action::freeze);
  REQUIRE(decision.beside.size() == 3);
  CHECK(decision.beside[0].action == Action::notify);
  CHECK(decision.beside[1].action == Action::sample);
  CHECK(decision.beside[2].clause == "runtime.ttft");
}

TEST_CASE("an observability clause that cannot be seen freezes and never rolls back by default") {
  schema::ClauseVerdict blind = violated("observability.fresh");
  blind.verdict = schema::Verdict::error;
  CHECK(escalate({}, Stage::canary, {blind}).action == Action::freeze);
}

TEST_CASE("in the guard rules match that name it or no stage, and what changes a ramp is a notice") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.errors", Action::log)};
  policy.rules[0].stage = Stage::canary;
  CHECK(escalate_in_guard(policy, {violated("runtime.errors")}).action == Action::rollback);
  policy.rules[0].stage.reset();
  CHECK(escalate_in_guard(policy, {violated("runtime.errors")}).action == Action::log);
  policy.rules[0].guard = true;
  CHECK(escalate_in_guard(policy, {violated("runtime.errors")}).action == Action::log);
  CHECK(escalate(policy, Stage::canary, {violated("runtime.errors")}).action == Action::rollback);
  policy.rules[0].guard = false;
  for (const Action action : {Action::sample, Action::freeze, Action::step_back}) {
    policy.rules[0].action = action;
    CHECK(escalate_in_guard(policy, {violated("runtime.errors")}).action == Action::notify);
  }
  CHECK(escalate_in_guard({}, {violated("runtime.ttft", schema::Severity::soft)}).action == Action::notify);
}
