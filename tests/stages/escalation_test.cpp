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
  REQUIRE(decision);
  CHECK_FALSE(decision->acted);
}

TEST_CASE("what no rule matches gets the default of its severity") {
  CHECK(escalate({}, Stage::canary, {violated("runtime.errors")})->action == Action::rollback);
  CHECK(escalate({}, Stage::canary, {violated("runtime.ttft", schema::Severity::soft)})->action ==
        Action::freeze);
}

TEST_CASE("of all matching rules the strongest action wins, whatever their order") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.ttft", Action::step_back), rule("runtime.*", Action::freeze)};
  CHECK(escalate(policy, Stage::canary, {violated("runtime.ttft")})->action == Action::step_back);
  std::swap(policy.rules[0], policy.rules[1]);
  CHECK(escalate(policy, Stage::canary, {violated("runtime.ttft")})->action == Action::step_back);
}

TEST_CASE("over all verdicts the strongest action wins and its clause is named") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.ttft", Action::log)};
  const auto decision =
      escalate(policy, Stage::canary, {violated("runtime.ttft"), violated("runtime.errors")});
  CHECK(decision->action == Action::rollback);
  CHECK(decision->clause == "runtime.errors");
}

TEST_CASE("a rule for another stage, severity or slice does not match") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.errors", Action::log)};
  policy.rules[0].stage = Stage::shadow_runtime;
  CHECK(escalate(policy, Stage::canary, {violated("runtime.errors")})->action == Action::rollback);
  policy.rules[0].stage.reset();
  CHECK(escalate(policy, Stage::canary, {violated("runtime.errors")})->action == Action::log);
  const auto sliced = violated("runtime.errors", schema::Severity::hard, {{"language", "de"}});
  CHECK(escalate(policy, Stage::canary, {sliced})->action == Action::rollback);
  policy.rules[0].any_slice = true;
  CHECK(escalate(policy, Stage::canary, {sliced})->action == Action::log);
}

TEST_CASE("a prefix that is not a family does not match") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.*", Action::log)};
  CHECK(escalate(policy, Stage::canary, {violated("runtimes.errors")})->action == Action::rollback);
}

TEST_CASE("an action that is not carried out is an internal error by name") {
  schema::Escalation policy;
  policy.rules = {rule("runtime.errors", Action::route_slice)};
  const auto decision = escalate(policy, Stage::canary, {violated("runtime.errors")});
  REQUIRE_FALSE(decision);
  CHECK(decision.error().code == schema::ErrorCode::internal);
  CHECK(decision.error().message.find("route_slice") != std::string::npos);
}

TEST_CASE("an observability clause that cannot be seen freezes and never rolls back by default") {
  schema::ClauseVerdict blind = violated("observability.fresh");
  blind.verdict = schema::Verdict::error;
  CHECK(escalate({}, Stage::canary, {blind})->action == Action::freeze);
}
