#include "schema/contract/contract.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/schema/contract_text.hpp"

namespace driftgate::schema {
namespace {

Contract parse(std::string_view text) {
  ContractReport report = parse_contract(text, "test.yaml");
  INFO(format_faults(report.faults, "test.yaml"));
  REQUIRE(report.contract.has_value());
  return std::move(*report.contract);
}

TEST_CASE("a contract is read with its defaults filled in") {
  const Contract contract = parse(kContractText);
  CHECK(contract.name == "small");
  CHECK(contract.train_kernel == "f32");
  CHECK(contract.fallback_kernel.empty());
  CHECK(contract.assumptions.max_tokens == 512);
  CHECK(contract.slices.critical == std::vector<SliceWhere>{{{"language", "de"}}});
  REQUIRE(contract.clauses.size() == 8);
  CHECK(contract.clauses[0].address() == "numerical.finite");
  CHECK(contract.clauses[0].stages == stage_bit(Stage::offline_numeric));
  CHECK(contract.clauses[0].position.line == 14);
  CHECK(contract.clauses[0].severity == Severity::hard);
  CHECK(std::get<MetricSubject>(contract.clauses[1].subject).aggregate == Aggregate::p99);
  CHECK(std::get<BoundSubject>(contract.clauses[2].subject).horizon == Horizon::token);
  CHECK(contract.clauses[3].slices == std::vector{SliceRole::critical});
  CHECK(contract.clauses[4].limits.non_inferiority_margin == 0.03);
  CHECK(contract.clauses[5].limits.max == 0.02);
  CHECK(contract.clauses[5].limits.max_ratio == 1.5);
  CHECK(contract.clauses[5].stages == (stage_bit(Stage::shadow_runtime) | stage_bit(Stage::canary)));
  CHECK(contract.clauses[7].limits.max_staleness_ms == 30'000);
  REQUIRE(contract.canary.has_value());
  CHECK(contract.canary->steps.size() == 3);
  CHECK(contract.canary->steps[1].share_bp == 5'000);
  CHECK(contract.canary->steps[1].approval);
  CHECK(contract.canary->steps[1].approvals == 1);
  CHECK(contract.canary->approval_valid_ms == 86'400'000);
  CHECK(contract.canary->min_keys == 300);
  CHECK(contract.escalation.rules[0].action == Action::rollback);
}

TEST_CASE("durations are read in every unit and combination") {
  const auto staleness = [](std::string_view text) {
    return parse(contract_with("30s", text)).clauses[7].limits.max_staleness_ms.value_or(-1);
  };
  CHECK(staleness("500ms") == 500);
  CHECK(staleness("5m") == 300'000);
  CHECK(staleness("1h30m") == 5'400'000);
  CHECK(staleness("1h2m3s4ms") == 3'723'004);
  CHECK(staleness("1d") == 86'400'000);
  for (const char* wrong :
       {"30", "s", "30 s", "1m1h", "1s1s", "-1s", "1.5s", "99999999999999s", "500d", "1x"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_contract(contract_with("30s", wrong), "t").contract.has_value());
  }
}

TEST_CASE("the digest does not depend on spelling, comments, order or the language of the document") {
  const Contract plain = parse(kContractText);
  CHECK(plain.digest.starts_with("sha256:"));
  CHECK(parse(contract_with("0.02, slices", "2e-2, slices")).digest == plain.digest);
  CHECK(parse(contract_with("max: 0.75}", "\"max\": 0.750} # judgement")).digest == plain.digest);
  CHECK(parse(contract_with("kind: KernelContract\n", "") + "kind: KernelContract\n").digest == plain.digest);
  CHECK(parse(plain.canonical_json).digest == plain.digest);
  CHECK(parse(nlohmann::json::parse(plain.canonical_json).dump(4)).digest == plain.digest);
  CHECK(parse(contract_with("max: 0.75", "max: 0.76")).digest != plain.digest);
  // No defaults are filled in: what says more is another document.
  CHECK(parse(contract_with("max: 0.75}", "max: 0.75, severity: hard}")).digest != plain.digest);
}

TEST_CASE("faults in JSON have lines and columns as well") {
  const std::string json = nlohmann::json::parse(parse(kContractText).canonical_json).dump(2);
  std::string wrong = json;
  wrong.replace(wrong.find("\"non_inferiority_margin\""), 24, "\"non_inferiority_margn\"");
  const ContractReport report = parse_contract(wrong, "c.json");
  REQUIRE(report.faults.size() >= 1);
  CHECK(report.faults.back().position.line > 1);
  const std::string text = format_faults(report.faults, "c.json");
  CHECK(text.find("did you mean \"non_inferiority_margin\"?") != std::string::npos);
}

TEST_CASE("a default stage that cannot supply the metric is left out, and a stated one is a fault") {
  const Contract contract = parse(
      contract_with("  - {id: ttft,", "  - {id: live, metric: abs_log_ratio, clip: 1, max: 0.1}\n  - {id: ttft,"));
  CHECK(contract.clauses[6].address() == "runtime.live");
  CHECK(contract.clauses[6].stages == stage_bit(Stage::shadow_runtime));
  const auto report = parse_contract(
      contract_with("{id: ttft,",
                    "{id: live, metric: abs_log_ratio, clip: 1, max: 0.1, stages: [canary]}\n  - {id: ttft,"),
      "t");
  REQUIRE(report.faults.size() == 1);
  CHECK(report.faults[0].message ==
        "canary cannot supply abs_log_ratio; allowed: offline-numeric, statistical-slice, shadow-runtime");
}

TEST_CASE(
    "lint warns of stages without demands, of limits that cannot bite and of steps that are too short") {
  const auto warnings = [](std::string_view from, std::string_view to) {
    const ContractReport report = parse_contract(contract_with(from, to), "t");
    INFO(format_faults(report.faults, "t"));
    REQUIRE(report.contract.has_value());
    return format_faults(report.warnings, "t");
  };
  CHECK(warnings("min: 0", "min: 0").empty());
  CHECK(warnings("max: 0.02, slices", "max: 1, slices").find("can never be violated") != std::string::npos);
  CHECK(warnings("steps: [", "min_keys: 20\n    steps: [").find("needs at least 285 sticky keys") !=
        std::string::npos);
  CHECK(warnings("max_ratio: 1.5, max: 0.02", "max: 0").find("can never pass") != std::string::npos);
  CHECK(warnings("\nguard: {mean_time_between_false_alarms: 365d}", "").find("nothing is watched once") !=
        std::string::npos);
  CHECK(warnings("soak: 6m", "soak: 5m").find("over 30 blocks of 12 s") != std::string::npos);
  CHECK(warnings("soak: 6m", "soak: 6m\n    burst: 30s").find("raise soak to 15 min") != std::string::npos);
  CHECK(warnings("soak: 6m", "soak: 1m\n    burst: 2s").empty());
  const std::string bare =
      "apiVersion: driftgate/v1\nkind: KernelContract\nmetadata: {name: a}\nkernels: {train: {ref: a}, inf: "
      "{ref: b}}\n";
  const ContractReport report = parse_contract(bare, "t");
  REQUIRE(report.contract.has_value());
  CHECK(report.warnings.size() == 5);
  CHECK(format_faults(report.warnings, "t").find("stages.canary is absent") != std::string::npos);
}

}  // namespace
}  // namespace driftgate::schema
