#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "tests/schema/contract_text.hpp"

namespace driftgate::schema {
namespace {

struct Case {
  std::string_view from, to;
  std::string_view expected;  ///< "line:column: message", or a part of the message
};

void check_all(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    CAPTURE(std::string(test.to));
    const std::string text = contract_with(test.from, test.to);
    REQUIRE_FALSE(text.empty());
    const ContractReport report = parse_contract(text, "c");
    CHECK_FALSE(report.contract.has_value());
    const std::string faults = format_faults(report.faults, "c");
    CAPTURE(faults);
    CHECK(report.faults.size() == 1);
    CHECK(faults.find(test.expected) != std::string::npos);
  }
}

TEST_CASE("unknown names are faults with their place, what is allowed and the nearest name") {
  check_all({
      {"max: 0.75}", "maxx: 0.75, max: 0.75}",
       "c:15:52: a numerical clause has no field \"maxx\"; allowed: "},
      {"metric: tv", "metric: tvv", "c:18:22: found the text \"tvv\"; allowed: logit_max_abs"},
      {"metric: tv", "metric: tvv", "did you mean \"tv\"?"},
      {"aggregate: p99", "aggregate: p98", "did you mean \"p90\"?"},
      {"aggregate: sum", "aggregate: mean",
       "the aggregate mean makes no sense for nonfinite; allowed: max, sum"},
      {"aggregate: sum, ", "", "c:14:5: the field \"aggregate\" is missing; allowed for nonfinite: max, sum"},
      {"bound: reward", "bound: rewards", "did you mean \"reward\"?"},
      {"outcome: correct", "outcome: corect", "did you mean \"correct\"?"},
      {"signal: telemetry", "signal: telemetri", "did you mean \"telemetry\"?"},
      {"numerical:", "numeric: 1\nnumerical:", "did you mean \"numerical\"?"},
      {"{name: small}", "{nam: small, name: a}",
       "metadata has no field \"nam\"; allowed: name, description, owners; "},
      {"action: rollback", "action: rolback", "did you mean \"rollback\"?"},
      {"stage: canary", "stage: canari", "did you mean \"canary\"?"},
      {"slices: [critical]", "slices: [critikal]", "did you mean \"critical\"?"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1", "metric: ess_fraction, aggregate: mean, min: 0.1",
       "ess_fraction is one figure by itself; remove \"aggregate\""},
  });
}

TEST_CASE("limits outside what they limit are faults") {
  check_all({
      {"max: 0.02, slices", "max: 1.5, slices", "c:18:48: found the number 1.5; allowed: a number in [0, 1]"},
      {"max: 0.75", "max: -1", "found the number -1; allowed: a number in [0, ∞)"},
      {"max: 0.75", "max: yes", "found the text \"yes\"; allowed: a number"},
      {"max: 0.75", "max: .inf", "numbers must be finite"},
      {"max_ratio: 1.1", "max_ratio: 0.9", "a number in [1, 1000]"},
      {"bound: reward, max: 0.05", "bound: reward, max: 1.5", "a number in [0, 1]"},
      {"margin: 0.03", "margin: 1", "a number in [0, 1)"},
      {"max_staleness: 30s", "max_staleness: 30", "allowed: a duration such as 500ms, 30s, 5m or 1h30m"},
      {", max: 0.75", "", "c:15:5: the clause states no limit; allowed: max, min"},
      {"max: 0.75", "max: 0.75, min: 0.1", "the clause states 2 kinds of limit (max, min)"},
      {"max: 0.75", "max_ratio: 1.5", "the limit max_ratio makes no sense here; allowed: max, min"},
      {"max: 0.75", "max: 0.75, min_count: 5", "the limit min_count makes no sense here"},
      {"max: 0.75", "max: 0.75, floor_cap: 0.8", "floor_cap stands only beside floor_multiple"},
      {"min_sequences: 175", "min_sequences: 0", "a whole number from 1 to 100000000"},
      {"max: 0.75", "max: 0.75, min_sequences: 50", "only statistical-slice looks at slices of the corpus"},
      {"max_ratio: 1.5, max: 0.02", "max_ratio: 1.5, require: proof",
       "a max_ratio on a rate can only be no_harm"},
  });
}

TEST_CASE("references within the contract are checked") {
  check_all({
      {"critical: [{language: de}]", "critical: [{langage: de}]",
       "c:12:15: the dimension \"langage\" is not declared; allowed: language, domain; did you mean "
       "\"language\"?"},
      {"{language: de}", "{language: 1}", "found the number 1; allowed: text; write \"1\" in quotes"},
      {"{language: de}", "{language: de}, {language: de}", "the critical slice language=de appears twice"},
      {"id: span", "id: finite",
       "the id \"finite\" appears twice in numerical; it first appeared on line 14"},
      {"\"runtime.errors\"", "\"runtime.erors\"",
       "c:32:15: \"runtime.erors\" matches no clause of this contract; allowed: "},
      {"\"runtime.errors\"", "\"runtime.erors\"", "did you mean \"runtime.errors\"?"},
      {"\"runtime.errors\"", "\"numerical.*\"",
       "\"numerical.*\" is not decided in canary, so the rule matches nothing"},
      {"stage: canary,", "severity: soft,", "\"runtime.errors\" has no soft clause"},
      {"action: rollback", "action: fallback", "the action fallback needs a fallback kernel"},
      {"action: rollback", "action: route_slice", "the action route_slice needs a fallback kernel"},
      {"  reward: {min: 0, max: 1}\n", "", "the bound reward needs the range of rewards"},
      {"bound: reward, max: 0.05", "bound: policy_gradient, max: 1",
       "the bound policy_gradient needs assumptions.policy"},
      {"  critical: [{language: de}]\n", "", "the contract has no critical slices"},
      {"aggregate: p99, max: 0.75", "aggregate: p99, max: 0.75, slices: [critical]",
       "offline-numeric looks at the corpus as a whole"},
      {"signal: telemetry, max_staleness: 30s", "signal: shadow_pairs, min_count: 5, stages: [canary]",
       "a canary mirrors nothing and goes by the shadow_pairs of shadow-runtime"},
      {"{match: \"runtime.errors\", stage: canary,", "{match: \"numerical.span\", slice: {language: de},",
       "\"numerical.span\" is not decided on slices"},
      {"stage: canary", "slice: {langage: de}", "the dimension \"langage\" is not declared"},
      {"metric: error_rate, max_ratio: 1.5, max: 0.02",
       "metric: tv_sampled, clip: 1, max: 0.1, stages: [canary]",
       "canary cannot supply tv_sampled; allowed: offline-numeric, statistical-slice, shadow-runtime"},
      {"metric: tv, aggregate: mean, max: 0.02, slices: [critical]", "metric: error_rate, max: 0.1",
       "no stage of the statistical family can supply error_rate; it is supplied in: shadow-runtime, canary"},
      {"bound: reward, max: 0.05", "outcome: correct, non_inferiority_margin: 0.1",
       "a numerical clause has no \"outcome\"; allowed: metric, bound, tensor"},
      {"metric: tv, ", "metric: tv, outcome: correct, ",
       "a clause names exactly one of metric, outcome, tensor; found 2"},
  });
}

TEST_CASE("plans that cannot run are faults") {
  check_all({
      {"{share: 0.5, approval: true}", "{share: 0.1}",
       "c:27:35: found the number 0.1; allowed: a share above the step before"},
      {", {share: 1.0}", "", "c:27:12: the steps must end at share 1.0"},
      {"{share: 0.1}", "{share: 0.1, approvals: 2}", "add approval: true"},
      {"approval: true", "approval: true, approvals: 0",
       "found the number 0; allowed: a whole number from 1 to 16"},
      {"approval: true", "approval: true, approvals: 17", "found the number 17"},
      {"{share: 0.1}", "{share: 0.00001}", "a number in [0.0001, 1]"},
      {"{share: 0.1}", "{share: 0.10001}", "a share in steps of 0.0001 (basis points)"},
      {"steps: [", "max_exposure: 10\n    steps: [", "max_exposure (10) is below min_keys (300)"},
      {"steps: [", "telemetry: {freeze_after: 3m}\n    steps: [", "freeze_after is longer than revert_after"},
      {"  canary:", "  shadow-runtime: {min_duration: 2h}\n  canary:",
       "min_duration is longer than max_duration"},
      {"min: 0, max: 1}", "min: 1, max: 1}", "the reward's min must be below its max"},
      {"max: 0.75}", "max: 0.75}\n  - {id: low, metric: logit_span, aggregate: p50, min: 0.8}",
       "numerical.low (p50 min 0.8) and numerical.span (p99 max 0.75) of logit_span cannot both hold"},
  });
}

TEST_CASE("every action can be ordered, and one that needs a slice says so") {
  const std::string fallback = "inf: {ref: int8}\n  fallback: {ref: bf16}";
  const auto with_action = [&](const std::string& rule) {
    std::string text = contract_with("inf: {ref: int8}", fallback);
    text.replace(text.find("stage: canary, action: rollback"), 31, rule);
    return parse_contract(text, "c");
  };
  for (const std::string action :
       {"log", "notify", "sample", "freeze", "step_back", "route_slice", "fallback", "rollback", "block"}) {
    CAPTURE(action);
    const auto report = with_action("slice: any, action: " + action);
    INFO(format_faults(report.faults, "c"));
    REQUIRE(report.contract.has_value());
    CHECK(to_string(report.contract->escalation.rules.at(0).action) == action);
  }
  const auto whole = with_action("stage: canary, action: route_slice");
  REQUIRE(whole.faults.size() == 1);
  CHECK(whole.faults[0].message.starts_with("route_slice sends the violating slices away"));
  std::string text = contract_with("inf: {ref: int8}", fallback);
  text.replace(text.find("hard: rollback"), 14, "hard: route_slice");
  const auto by_default = parse_contract(text, "c");
  REQUIRE(by_default.faults.size() == 1);
  CHECK(by_default.faults[0].message.starts_with("a default also answers violations of all traffic"));
}

TEST_CASE("a difference between the kernels is refused where the metric has none, and says why") {
  const std::string span = "metric: logit_span, aggregate: p99, max: 0.75";
  check_all({
      {span, "metric: tv, aggregate: mean, max_delta: 0.1",
       "the limit max_delta makes no sense here: tv already compares the two kernels; allowed: max, min"},
      {span, "metric: entropy_train, aggregate: mean, max_delta: 0.1", "state it on entropy_inf"},
      {span, "metric: logprob_train, aggregate: mean, max_delta: 0.1", "state it on logprob_inf"},
      {span, "metric: entropy_inf, aggregate: p99, max_delta: 0.1", "the aggregate is mean or sequence_mean"},
      {span, "metric: top1_margin, aggregate: mean, max_delta: 0.1", "on the training kernel alone"},
      {span, "metric: abs_log_ratio, max_delta: 0.1", "abs_log_ratio already compares the two kernels"},
      {"max_ratio: 1.5, max: 0.02", "max_delta: 1.5", "found the number 1.5; allowed: a number in [0, 1]"},
      {"max_ratio: 1.5, max: 0.02", "max_delta: 0.1, max: 0.1", "states 2 kinds of limit (max, max_delta)"},
  });
}

TEST_CASE("a clause on band_retention names one of its six values and limits it from below") {
  const std::string span = "metric: logit_span, aggregate: p99, max: 0.75";
  check_all({
      {span, "metric: band_retention, min: 0.9",
       "the field \"band\" is missing; allowed for band_retention: tokens.0_1pct, tokens.1pct, tokens.5pct, "
       "sequences.0_1pct, sequences.1pct, sequences.5pct"},
      {span, "metric: band_retention, band: tokens.1pc, min: 0.9", "did you mean \"tokens.1pct\"?"},
      {span, "metric: band_retention, band: tokens.1pct, max: 0.9", "the limit max makes no sense here"},
      {span, "metric: logit_span, aggregate: p99, max: 0.75, band: tokens.1pct", "logit_span has no bands"},
  });
}

TEST_CASE("discovery is checked like every other section") {
  check_all({
      {"  critical:", "  discover: {depth: 4}\n  critical:", "found the number 4"},
      {"  critical:", "  discover: {action: stop}\n  critical:", "allowed: report, block"},
      {"  critical:", "  discover: {max_ratio: 0.5}\n  critical:", "found the number 0.5"},
  });
  std::string text = contract_with("  dimensions: [language, domain]\n  critical: [{language: de}]",
                                   "  discover: {depth: 2}");
  text.replace(text.find(", slices: [critical]"), 20, "");
  CHECK(format_faults(parse_contract(text, "c").faults, "c")
            .find("list the attributes to search under slices.dimensions") != std::string::npos);
}

TEST_CASE("exact clauses say equal: true of a tensor and nothing else") {
  const std::string span = "metric: logit_span, aggregate: p99, max: 0.75";
  const std::string tv = "metric: tv, aggregate: mean, max: 0.02, slices: [critical]";
  check_all({
      {span, "tensor: logits", "the field \"equal\" of a numerical clause is missing"},
      {span, "tensor: logits, equal: false", "write equal: true"},
      {span, "tensor: logit, equal: true", "did you mean \"logits\"?"},
      {span, "tensor: logits, equal: true, max: 0", "the limit max makes no sense here; allowed: min_count"},
      {span, "metric: tv, aggregate: mean, max: 0.1, equal: true", "equal"},
      {span, "tensor: logits, equal: true, stages: [canary]", "canary cannot supply the bits of the logits"},
      {tv, "tensor: logits, equal: true, slices: [critical]", "on the corpus as a whole"},
  });
}

TEST_CASE("all faults are reported at once in the order of the document") {
  std::string text = contract_with("metric: nonfinite", "metric: nonfinit");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"max: 0.75", "max: x"}, {"margin: 0.03", "margin: 7"}, {"share: 0.5", "shar: 0.5"}}) {
    text.replace(text.find(from), from.size(), to);
  }
  const ContractReport report = parse_contract(text, "c");
  REQUIRE(report.faults.size() == 5);  // a step without "share" is two faults: unknown and missing
  for (std::size_t i = 1; i < report.faults.size(); ++i) {
    CHECK(report.faults[i - 1].position.line <= report.faults[i].position.line);
  }
}

}  // namespace
}  // namespace driftgate::schema
