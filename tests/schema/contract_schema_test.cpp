#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/document/document_node.hpp"
#include "schema/json.hpp"
#include "tests/schema/contract_text.hpp"
#include "tests/schema/valijson.hpp"

namespace driftgate::schema {
namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

class ContractSchema {
 public:
  ContractSchema() : document_(nlohmann::json::parse(contract_json_schema())) {
    valijson::SchemaParser parser;
    parser.populateSchema(Adapter(document_), schema_);
  }
  [[nodiscard]] bool accepts(const std::string& text) {
    std::vector<Fault> faults;
    const auto node = read_document(text, faults);
    REQUIRE(node.has_value());
    // 512.0 is an integer for JSON Schema but not for valijson: the canonical text says 512.
    const nlohmann::json value = nlohmann::json::parse(canonical_json(to_json(*node)));
    valijson::Validator validator;
    return validator.validate(schema_, Adapter(value), nullptr);
  }

 private:
  nlohmann::json document_;
  valijson::Schema schema_;
};

TEST_CASE("the JSON Schema accepts every shipped contract") {
  ContractSchema schema;
  CHECK(schema.accepts(std::string(kContractText)));
  for (const auto& entry : std::filesystem::directory_iterator("configs/contracts")) {
    CAPTURE(entry.path().string());
    std::ifstream stream(entry.path());
    CHECK(schema.accepts({std::istreambuf_iterator<char>(stream), {}}));
  }
}

TEST_CASE("the JSON Schema and the parser accept differences, bands, calibration and discovery alike") {
  ContractSchema schema;
  const std::string span = "metric: logit_span, aggregate: p99, max: 0.75";
  const std::string tv = "metric: tv, aggregate: mean, max: 0.02, slices: [critical]";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {span, "metric: entropy_inf, aggregate: mean, max_delta: 0.1"},
      {span, "metric: entropy_inf, aggregate: sequence_mean, max_delta: 0.1"},
      {span, "metric: kl_inf_train, clip: 0.5, max: 0.1"},
      {span, "metric: abs_log_ratio, aggregate: p97, over: sequences, max: 0.5"},
      {tv, "metric: tv, clip: 0.25, max: 0.02"},
      {"escalation:", "confidence: {means: approximate}\nescalation:"},
      {span, "metric: band_retention, band: sequences.5pct, min: 0.9"},
      {tv, "metric: ece_drift, max: 0.02"},
      {", min_sequences: 175}", ", min_sequences: 120}"},
      {tv, "metric: ece_drift, max_delta: 0.02, slices: [critical]"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1", "metric: prefix_agreement, min: 0.9"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1",
       "metric: first_divergence, aggregate: p50, min: 8, slices: [critical]"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1",
       "metric: divergence_rate, max: 0.1, floor_multiple: 2, floor_cap: 0.3"},
      {"max_ratio: 1.5, max: 0.02", "max_delta: 0.01"},
      {"max_ratio: 1.5, max: 0.02", "max: 0.02, slices: [critical, monitored]"},
      {"aggregate: p95, max_ratio: 1.1", "aggregate: mean, max_ratio: 1.1"},
      {"stage: canary", "slice: {language: de}"},
      {"stage: canary", "slice: any"},
      {"signal: telemetry, max_staleness: 30s", "signal: logprobs, min_coverage: 0.9"},
      {span, "tensor: logits, equal: true"},
      {span, "tensor: logprobs, equal: true, min_count: 50, severity: soft"},
      {span, "tensor: tokens, equal: true, stages: [statistical-slice]"},
      {"  critical:", "  discover: {max_ratio: 2}\n  critical:"},
      {"  critical:", "  discover: {depth: 3, action: block}\n  critical:"},
      {"{mean_time_between_false_alarms: 365d}", "{}"},
      {"{mean_time_between_false_alarms: 365d}",
       "{probes: {every: 2s, prompts: 0, budget_tokens: 100, action: rollback}, identity: {every: 2m, "
       "action: "
       "notify}}"},
      {"  max_tokens: 512", "  max_tokens: 512\n  swings: shared"},
      {"stage: canary", "stage: guard"}};
  for (const auto& [from, to] : cases) {
    CAPTURE(to);
    const std::string text = contract_with(from, to);
    REQUIRE_FALSE(text.empty());
    CHECK(schema.accepts(text));
    const ContractReport report = parse_contract(text, "c");
    INFO(format_faults(report.faults, "c"));
    CHECK(report.contract.has_value());
  }
}

TEST_CASE("the JSON Schema refuses what the parser refuses") {
  ContractSchema schema;
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"max: 0.75}", "maxx: 0.75}"},
      {"metric: tv,", "metric: tvv,"},
      {"  max_tokens: 512", "  max_tokens: 512\n  swings: sometimes"},
      {"metric: tv,", "metric: ece_drift,"},
      {"aggregate: sum", "aggregate: mean"},
      {"aggregate: sum, ", ""},
      {"max: 0.02, slices", "max: 1.5, slices"},
      {"min_sequences: 175", "min_sequences: 0"},
      {"max: 0.75", "max: '0.75'"},
      {"max: 0.75", "max_ratio: 2"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1", "metric: prefix_agreement, max: 0.9"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1",
       "metric: prefix_agreement, aggregate: mean, min: 0.9"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1", "metric: first_divergence, min: 33"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1", "metric: divergence_rate, min: 0.1"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1",
       "metric: divergence_rate, max: 0.1, floor_multiple: 2"},
      {"metric: ttft_ms, aggregate: p95, max_ratio: 1.1",
       "metric: error_rate, max: 0.1, floor_multiple: 2, floor_cap: 0.3"},
      {"max: 0.75", "max_delta: 0.1"},
      {"escalation:", "confidence: {means: exactly}\nescalation:"},
      {"metric: logit_span, aggregate: p99", "metric: log_ratio, clip: 1"},
      {"metric: logit_span, aggregate: p99", "metric: logit_span, aggregate: p99, over: tokens"},
      {"aggregate: p95, max_ratio: 1.1", "aggregate: p95, over: sequences, max_ratio: 1.1"},
      {"max: 0.75", "max: 0.75, band: tokens.1pct"},
      {"metric: logit_span, aggregate: p99, max: 0.75", "metric: band_retention, min: 0.9"},
      {"metric: logit_span, aggregate: p99, max: 0.75",
       "metric: band_retention, band: tokens.1pct, max: 0.9"},
      {"  critical:", "  discover: {depth: 4}\n  critical:"},
      {"  critical:", "  discover: {max_ratio: 0.5}\n  critical:"},
      {"metric: logit_span, aggregate: p99, max: 0.75", "tensor: logits"},
      {"metric: logit_span, aggregate: p99, max: 0.75", "tensor: logits, equal: false"},
      {"metric: logit_span, aggregate: p99, max: 0.75", "tensor: hidden, equal: true"},
      {"metric: logit_span, aggregate: p99, max: 0.75",
       "tensor: logits, metric: tv, aggregate: mean, equal: true"},
      {"max_ratio: 1.1", "max_ratio: 0.5"},
      {"margin: 0.03", "margin: 1"},
      {"30s", "30 seconds"},
      {"30s", "1m1h"},
      {"metric: tv, ", "metric: tv, outcome: correct, "},
      {"action: rollback", "action: rolback"},
      {"share: 0.5", "share: 1.5"},
      {"share: 0.5", "shares: 0.5"},
      {"apiVersion: driftgate/v1", "apiVersion: driftgate/v2"},
      {"kernels:", "kernel: 1\nkernels:"},
      {"{mean_time_between_false_alarms: 365d}", "{mean_time: 365d}"},
      {"{mean_time_between_false_alarms: 365d}", "{probes: {prompts: 2000}}"},
      {"{mean_time_between_false_alarms: 365d}", "{identity: {action: block}}"},
      {"  inf: {ref: int8}\n", ""}};
  for (const auto& [from, to] : cases) {
    CAPTURE(std::string(to));
    const std::string text = contract_with(from, to);
    REQUIRE_FALSE(text.empty());
    CHECK_FALSE(schema.accepts(text));
    CHECK_FALSE(parse_contract(text, "c").contract.has_value());
  }
}

}  // namespace
}  // namespace driftgate::schema
