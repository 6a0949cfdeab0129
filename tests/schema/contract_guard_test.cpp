#include "schema/contract/contract_guard.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schema/contract/contract_diff.hpp"
#include "schema/contract/explain.hpp"
#include "schema/contract/stored_contract.hpp"
#include "tests/schema/contract_text.hpp"

namespace driftgate::schema {
namespace {

constexpr std::string_view kGuard = "guard: {mean_time_between_false_alarms: 365d}";
constexpr std::string_view kErrors = "{id: errors, metric: error_rate, max_ratio: 1.5, max: 0.02}";
constexpr std::string_view kDuration = "    max_duration: 24h\n";

Contract parse(const std::string& text) {
  REQUIRE_FALSE(text.empty());
  const ContractReport report = parse_contract(text, "c");
  REQUIRE_MESSAGE(report.contract.has_value(), format_faults(report.faults, "c"));
  return *report.contract;
}

std::string faults(const std::string& text) {
  REQUIRE_FALSE(text.empty());
  return format_faults(parse_contract(text, "c").faults, "c");
}

std::string warnings(const std::string& text) {
  REQUIRE_FALSE(text.empty());
  const ContractReport report = parse_contract(text, "c");
  REQUIRE_MESSAGE(report.contract.has_value(), format_faults(report.faults, "c"));
  return format_faults(report.warnings, "c");
}

/// The guard with other members, written as a block.
std::string with_guard(const std::string& members) {
  return contract_with(kGuard, "guard: {" + members + "}");
}

TEST_CASE("a guard is read with its defaults filled in") {
  const Contract contract = parse(with_guard(""));
  REQUIRE(contract.guard.has_value());
  CHECK(contract.guard->mean_time_between_false_alarms_ms == std::int64_t{365} * 86'400'000);
  CHECK(contract.guard->probes.every_ms == 10'000);
  CHECK(contract.guard->probes.prompts == 64);
  CHECK(contract.guard->probes.budget_tokens == 1'000'000);
  CHECK(contract.guard->probes.action == Action::notify);
  CHECK(contract.guard->identity.every_ms == 60'000);
  CHECK(contract.guard->identity.action == Action::notify);
  CHECK_FALSE(parse(contract_with(kGuard, "")).guard.has_value());
}

TEST_CASE("every setting of a guard is read") {
  const Contract contract = parse(with_guard(
      "mean_time_between_false_alarms: 30d, probes: {every: 2s, prompts: 16, budget_tokens: 5000000, action: "
      "rollback}, identity: {every: 5m, action: rollback}"));
  REQUIRE(contract.guard.has_value());
  CHECK(contract.guard->mean_time_between_false_alarms_ms == std::int64_t{30} * 86'400'000);
  CHECK(contract.guard->probes.every_ms == 2'000);
  CHECK(contract.guard->probes.prompts == 16);
  CHECK(contract.guard->probes.budget_tokens == 5'000'000);
  CHECK(contract.guard->probes.action == Action::rollback);
  CHECK(contract.guard->identity.every_ms == 300'000);
  CHECK(contract.guard->identity.action == Action::rollback);
}

TEST_CASE("a wrong guard is a fault with its place") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"probe: {every: 2s}", "did you mean"},
      {"mean_time_between_false_alarms: 10s", "c:34:41: "},
      {"mean_time_between_false_alarms: 400d", "c:34:41: "},
      {"probes: {prompts: 1025}", "a whole number from 0 to 1024"},
      {"probes: {every: 2d}", "c:34:"},
      {"probes: {action: freeze}", "allowed: notify, rollback"},
      {"identity: {every: 10ms}", "c:34:"},
      {"identity: {action: block}", "allowed: notify, rollback"},
      {"rescore: {share: 0.001}", "guard has no field \"rescore\""}};
  for (const auto& [members, expected] : cases) {
    CAPTURE(members);
    const std::string found = faults(with_guard(members));
    CAPTURE(found);
    CHECK(found.find(expected) != std::string::npos);
  }
}

/// The guard with rescoring, and this clause beside the statistical ones.
std::string with_rescoring(const std::string& clause, const std::string& members = "") {
  std::string text = contract_with(kGuard, "guard: {rescoring: {" + members + "}}");
  const std::string statistical = "statistical:\n";
  const auto at = text.find(statistical);
  REQUIRE(at != std::string::npos);
  return text.insert(at + statistical.size(), "  - " + clause + "\n");
}

TEST_CASE("rescoring is asked for by its name, with a share and a day's budget") {
  CHECK_FALSE(parse(with_guard("")).guard->rescoring.has_value());
  const Contract stated = parse(with_guard("rescoring: {share: 0.02, budget_tokens: 5000}"));
  REQUIRE(stated.guard->rescoring.has_value());
  CHECK(stated.guard->rescoring->share_bp == 200);
  CHECK(stated.guard->rescoring->budget_tokens == 5'000);
  const Contract bare = parse(with_guard("rescoring: {}"));
  CHECK(bare.guard->rescoring->share_bp == 10);
  CHECK(bare.guard->rescoring->budget_tokens == 1'000'000);
  for (const char* wrong :
       {"share: 0", "share: 1.5", "share: 0.00001", "budget_tokens: 0", "action: notify"}) {
    CAPTURE(wrong);
    CHECK_FALSE(faults(with_guard(std::string("rescoring: {") + wrong + "}")).empty());
  }
}

TEST_CASE("rescored answers test what their own tokens show, and explain says which clauses") {
  const auto tested = [](const std::string& clause) {
    const auto clauses = rescored_clauses(parse(with_rescoring(clause)));
    return std::ranges::find(clauses, "statistical.added") != clauses.end();
  };
  CHECK(tested("{id: added, metric: tv, aggregate: sequence_mean, max: 0.1}"));
  CHECK(tested("{id: added, metric: kl_inf_train, aggregate: sequence_mean, clip: 0.5, max: 0.05}"));
  CHECK(tested("{id: added, metric: abs_log_ratio, aggregate: p97, over: sequences, max: 0.5}"));
  CHECK_FALSE(tested("{id: added, metric: top1_flip, aggregate: sequence_mean, max: 0.1}"));
  CHECK_FALSE(tested("{id: added, metric: tv, aggregate: p97, over: sequences, max: 0.1}"));
  const auto plan =
      guard_plan(parse(with_rescoring("{id: added, metric: tv, aggregate: sequence_mean, max: 0.1}")));
  REQUIRE_FALSE(plan.empty());
  CHECK(plan.back().find("0.1% of sticky keys") != std::string::npos);
  CHECK(plan.back().find("statistical.added") != std::string::npos);
}

TEST_CASE("a rule of the guard may be about a clause that only rescored answers test") {
  const std::string clause = "{id: added, metric: tv, aggregate: sequence_mean, max: 0.1}";
  const std::string rules = "escalation:\n";
  const std::string rule = "{match: statistical.added, stage: guard, action: notify}";
  const auto with_rule = [&](std::string text) {
    const auto at = text.find("  rules:\n");
    if (at != std::string::npos) return text.insert(at + 9, "    - " + rule + "\n");
    const auto begin = text.find(rules);
    REQUIRE(begin != std::string::npos);
    return text.insert(begin + rules.size(), "  rules: [" + rule + "]\n");
  };
  CHECK(faults(with_rule(with_rescoring(clause))).empty());
  std::string without = with_rescoring(clause);
  const std::string asked = "guard: {rescoring: {}}";
  without.replace(without.find(asked), asked.size(), "guard: {}");
  CHECK(faults(with_rule(without)).find("is not tested in the guard") != std::string::npos);
}

TEST_CASE("a guard without a canary is refused: no promotion could ever arm it") {
  std::string text = contract_with(
      "stages:\n  canary:\n    steps: [{share: 0.1}, {share: 0.5, approval: true}, {share: 1.0}]\n    soak: "
      "6m\n    max_duration: 24h\n",
      "");
  CHECK(faults(text).find("without stages.canary none can") != std::string::npos);
}

TEST_CASE(
    "a canary that could wait for a proof for ever is refused when it is registered, and not when read") {
  const std::string text = contract_with(kDuration, "");
  const std::string found = faults(text);
  CAPTURE(found);
  CHECK(found.find("c:27:5: a step of the canary waits for the proof of runtime.errors") !=
        std::string::npos);
  CHECK(found.find("state max_duration (such as 24h)") != std::string::npos);
  CHECK(parse_stored_contract(text, "c").contract.has_value());
}

TEST_CASE("what passes unless it is violated, and what is soft, keeps no step waiting") {
  const std::string text = contract_with(kDuration, "");
  for (const std::string clause : {"{id: errors, metric: error_rate, max_ratio: 1.5}",
                                   "{id: errors, metric: error_rate, max: 0.02, require: no_harm}",
                                   "{id: errors, metric: error_rate, max: 0.02, severity: soft}",
                                   "{id: errors, metric: error_rate, max: 0.02, stages: [shadow-runtime]}"}) {
    CAPTURE(clause);
    std::string changed = text;
    changed.replace(changed.find(kErrors), kErrors.size(), clause);
    // The rule on runtime.errors is for the canary.
    const std::string rule = "    - {match: \"runtime.errors\", stage: canary, action: rollback}\n";
    changed.replace(changed.find("  rules:\n" + rule), 9 + rule.size(), "");
    INFO(faults(changed));
    CHECK(parse_contract(changed, "c").contract.has_value());
  }
}

TEST_CASE("lint warns of a guard that can do nothing") {
  CHECK(warnings(contract_with(kGuard, "")).find("nothing is watched once a promotion has succeeded") !=
        std::string::npos);
  CHECK(warnings(with_guard("probes: {budget_tokens: 1000}")).find("cannot pay for 8640 probes a day") !=
        std::string::npos);
  CHECK(warnings(with_guard("probes: {prompts: 0, budget_tokens: 1000}")).empty());
  std::string text =
      contract_with(kErrors, "{id: errors, metric: error_rate, max: 0.02, stages: [shadow-runtime]}");
  const std::string ttft = "aggregate: p95, max_ratio: 1.1";
  text.replace(text.find(ttft), ttft.size(), "aggregate: mean, max_ratio: 1.1");
  const std::string rules = "  rules:\n    - {match: \"runtime.errors\", stage: canary, action: rollback}\n";
  text.replace(text.find(rules), rules.size(), "");
  CHECK(warnings(text).find("the guard has no clause to test") != std::string::npos);
}

TEST_CASE("a guard watches failure rates and quantiles of latencies that the canary decides") {
  const Contract contract = parse(std::string(kContractText));
  std::vector<std::string> watched;
  for (const Clause& clause : contract.clauses) {
    if (is_watched(clause)) watched.push_back(clause.address());
  }
  CHECK(watched == std::vector<std::string>{"runtime.errors", "runtime.ttft"});
}

TEST_CASE("a rule may be for the guard alone, and then orders nothing that only a ramp has") {
  const auto with_rule = [](const std::string& place_and_action) {
    return contract_with("stage: canary, action: rollback", place_and_action);
  };
  const Contract contract = parse(with_rule("stage: guard, action: notify"));
  CHECK(contract.escalation.rules.at(0).guard);
  CHECK_FALSE(contract.escalation.rules.at(0).stage.has_value());
  for (const std::string action : {"sample", "freeze", "step_back"}) {
    CAPTURE(action);
    CHECK(
        faults(with_rule("stage: guard, action: " + action)).find("changes a ramp, and the guard has none") !=
        std::string::npos);
  }
  std::string without = with_rule("stage: guard, action: notify");
  without.replace(without.find(kGuard), kGuard.size(), "");
  CHECK(faults(without).find("the contract has no guard, so the rule matches nothing") != std::string::npos);
  CHECK(faults(contract_with("{match: \"runtime.errors\", stage: canary, action: rollback}",
                             "{match: \"numerical.span\", stage: guard, action: notify}"))
            .find("is not tested in the guard") != std::string::npos);
}

TEST_CASE("explain says what is watched after the promotion") {
  const auto sentences = explain(parse(std::string(kContractText))).guard;
  REQUIRE(sentences.size() == 3);
  CHECK(sentences[0].find("tests runtime.errors, runtime.ttft on live traffic") != std::string::npos);
  CHECK(sentences[0].find("at most one false alarm in 365 d") != std::string::npos);
  CHECK(sentences[1].find("one of 64 golden prompts every 10 s for at most 1000000 tokens a day") !=
        std::string::npos);
  CHECK(sentences[2].find("asks the engine every 1 min what it is") != std::string::npos);
  CHECK(explain(parse(contract_with(kGuard, ""))).guard.empty());
}

TEST_CASE("a diff of contracts tells what a guard loses and gains") {
  const auto changes = [](const std::string& before, const std::string& after) {
    return contract_diff(parse(before), parse(after));
  };
  const std::string plain(kContractText);
  const auto rarer = changes(with_guard("mean_time_between_false_alarms: 30d"), plain);
  REQUIRE(rarer.size() == 1);
  CHECK(rarer[0].kind == ChangeKind::looser);
  CHECK(rarer[0].where == "guard.mean_time_between_false_alarms");
  const auto stronger = changes(plain, with_guard("identity: {action: rollback}"));
  REQUIRE(stronger.size() == 1);
  CHECK(stronger[0].kind == ChangeKind::stricter);
  CHECK(stronger[0].where == "guard.identity.action");
  const auto fewer = changes(plain, with_guard("probes: {prompts: 8}"));
  REQUIRE(fewer.size() == 1);
  CHECK(fewer[0].kind == ChangeKind::looser);
  const auto gone = changes(plain, contract_with(kGuard, ""));
  REQUIRE_FALSE(gone.empty());
  CHECK(std::ranges::all_of(gone,
                            [](const ContractChange& change) { return change.kind == ChangeKind::removed; }));
}

}  // namespace
}  // namespace driftgate::schema
