#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "schema/contract/contract_means.hpp"
#include "schema/metrics.hpp"
#include "stages/canary/canary.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistical_slice.hpp"
#include "tests/stages/make.hpp"

// Whatever a contract may say is decided somewhere: a clause that the parser takes is never answered with
// "not evaluated here", whatever the data.

namespace driftgate::stages {
namespace {

using schema::MetricGroup;
using schema::Stage;

constexpr Stage kStages[] = {Stage::offline_numeric, Stage::statistical_slice, Stage::shadow_runtime,
                             Stage::canary};

schema::ContractReport parse(const std::string& family, const std::string& clause, const char* means) {
  return schema::parse_contract(fmt::format(R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {{name: kinds, description: d, owners: [a@example.org]}}
kernels: {{train: {{ref: a}}, inf: {{ref: b}}}}
assumptions:
  reward: {{min: 0, max: 1}}
  policy: {{advantage_max: 1.0, score_norm_max: 10.0, ppo_clip: 0.2, is_clip: 2.0}}
  max_tokens: 16
slices: {{dimensions: [language], min_sequences: 10}}
{}:
  - {{id: one, {}}}
stages:
  shadow-runtime: {{mirror_share: 0.5, min_duration: 4s, max_duration: 60s}}
  canary: {{steps: [{{share: 0.1}}, {{share: 1.0}}], soak: 1s, bake: 1s, min_keys: 20, max_duration: 1h}}
confidence: {{means: {}}}
)",
                                            family, clause, means),
                                "kinds");
}

/// Limits of every kind around a value of the metric's range.
std::vector<std::string> limits(double value) {
  return {fmt::format("max: {}", value),
          fmt::format("min: {}", value),
          "max_ratio: 1.5",
          "max_delta: 0.1",
          "non_inferiority_margin: 0.03",
          "min_count: 50",
          "min_coverage: 0.9",
          "max_staleness: 10s",
          fmt::format("max: {}, max_ratio: 1.5", value),
          fmt::format("max: {}, floor_multiple: 2, floor_cap: {}", value, value)};
}

double inside(const schema::MetricInfo& metric) {
  if (metric.high <= 0) return -0.5;
  return metric.low >= 1 ? 1.5 : 0.5;
}

gpu::MeasurementTable table_for(const schema::Contract& contract) {
  auto table = make::table(required_thresholds(contract));
  for (int i = 0; i < 60; ++i)
    make::append(table, {.rows = 4, .tv = 0.01 + 0.0001 * i, .slices = {{"language", i % 2 ? "de" : "en"}}});
  return table;
}

std::vector<schema::ClauseVerdict> decide(const schema::Contract& contract, Stage stage) {
  const auto table = table_for(contract);
  StageInputs inputs;
  inputs.floors = {{&table, {}}, {&table, {}}};
  if (stage == Stage::offline_numeric) return evaluate_offline_numeric(contract, table, inputs).clauses;
  if (stage == Stage::statistical_slice) return evaluate_statistical_slice(contract, table, inputs).clauses;
  ShadowInputs shadow;
  for (std::uint64_t i = 0; i < 60; ++i) {
    ShadowPair pair;
    pair.order = i;
    pair.key_hash = i;
    pair.candidate_latency = pair.incumbent_latency = {20, 5, 100};
    pair.batch_variant = false;
    pair.greedy = pair.greedy_floor = GreedyAgreement{32, 32};
    shadow.pairs.push_back(pair);
  }
  shadow.realised = table;
  return evaluate_shadow_runtime(contract, shadow).clauses;
}

/// How an answer reads that says no stage knows this kind of clause.
bool is_no_answer(const std::string& message) {
  for (const char* phrase :
       {"not evaluated", "not on traffic", "not on captures", "This stage decides", " only."})
    if (message.find(phrase) != std::string::npos) return true;
  return false;
}

/// Decides the clause where it may be; true when the contract takes it.
bool is_taken(const std::string& family, const std::string& clause, Stage stage,
              const char* means = "approximate") {
  CAPTURE(clause);
  // A canary mirrors nothing: signals of pairs are those of shadow-runtime, carried on.
  const bool carried = stage == Stage::canary && family == "observability";
  const auto report = parse(family, fmt::format("{}, stages: [{}{}]", clause,
                                                carried ? "shadow-runtime, " : "", schema::to_string(stage)),
                            means);
  if (!report.contract) return false;
  if (stage == Stage::canary) {
    const auto canary = CanaryState::create(*report.contract, {});
    CHECK_MESSAGE(canary.has_value(), (canary ? "" : canary.error().describe()));
    return true;
  }
  const auto verdicts = decide(*report.contract, stage);
  CHECK_FALSE(verdicts.empty());
  for (const auto& verdict : verdicts) {
    CAPTURE(verdict.message);
    CHECK_FALSE(is_no_answer(verdict.message));
  }
  return true;
}

std::string family_of(MetricGroup group, Stage stage) {
  if (group == MetricGroup::signal) return "observability";
  if (stage == Stage::shadow_runtime || stage == Stage::canary) return "runtime";
  return stage == Stage::offline_numeric ? "numerical" : "statistical";
}

std::vector<std::string> subjects(const schema::MetricInfo& metric) {
  if (metric.group == MetricGroup::signal) return {fmt::format("signal: {}", metric.name)};
  if (metric.metric == schema::Metric::band_retention) return {"metric: band_retention, band: tokens.1pct"};
  const char* over = metric.group == MetricGroup::realised ? ", over: sequences" : "";
  if (metric.aggregates == 0) return {fmt::format("metric: {}", metric.name)};
  std::vector<std::string> out;
  for (std::size_t i = 0; i < schema::kAggregateCount; ++i) {
    const auto aggregate = static_cast<schema::Aggregate>(i);
    if ((metric.aggregates & schema::aggregate_bit(aggregate)) == 0) continue;
    out.push_back(fmt::format("metric: {}, aggregate: {}{}", metric.name, schema::to_string(aggregate),
                              schema::quantile_of(aggregate) ? over : ""));
  }
  if (metric.group == MetricGroup::row && (metric.aggregates & schema::aggregate_bit(schema::Aggregate::p97)) != 0)
    out.push_back(fmt::format("metric: {}, aggregate: p97, over: sequences", metric.name));
  return out;
}

TEST_CASE("every metric and signal is taken in each stage that supplies it, and decided there") {
  std::size_t taken = 0;
  for (const schema::MetricInfo& metric : schema::metric_registry()) {
    for (const Stage stage : kStages) {
      if ((metric.stages & schema::stage_bit(stage)) == 0) continue;
      for (const std::string& subject : subjects(metric)) {
        std::size_t here = 0;
        for (const std::string& limit : limits(inside(metric)))
          here += is_taken(family_of(metric.group, stage), subject + ", " + limit, stage) ? 1 : 0;
        CAPTURE(subject);
        CAPTURE(schema::to_string(stage));
        CHECK(here > 0);
        taken += here;
      }
    }
  }
  MESSAGE(taken << " clauses were taken and decided");
  CHECK(taken > 400);
}

TEST_CASE("every mean of captures is decided exactly where it is bounded or clipped") {
  std::size_t plain = 0, clipped = 0;
  for (const schema::MetricInfo& metric : schema::metric_registry()) {
    if ((metric.aggregates & schema::aggregate_bit(schema::Aggregate::sequence_mean)) == 0) continue;
    if (metric.group == MetricGroup::greedy) continue;  // of live answers, and always decided exactly
    const bool band = metric.metric == schema::Metric::band_retention;
    for (const Stage stage : kStages) {
      if ((metric.stages & schema::stage_bit(stage)) == 0) continue;
      CAPTURE(metric.name);
      const std::string subject = subjects(metric).front().substr(0, subjects(metric).front().find(", aggregate"));
      const std::string limit = fmt::format("{}: {}", band ? "min" : "max", inside(metric));
      const std::string family = family_of(metric.group, stage);
      const bool bounded = schema::has_finite_range(metric.metric);
      CHECK(is_taken(family, subject + ", " + limit, stage, "exact") == bounded);
      const bool clips = std::isfinite(metric.low);
      const std::string clip = fmt::format(", clip: {}", inside(metric) + (metric.high < 0.7 ? 0.1 : 0.4));
      CHECK(is_taken(family, subject + ", " + limit + clip, stage, "exact") == clips);
      plain += bounded ? 1 : 0;
      clipped += clips ? 1 : 0;
    }
  }
  CHECK(plain > 10);
  CHECK(clipped > plain);
}

TEST_CASE("every bound at every horizon and an outcome are taken and decided") {
  for (const char* bound : {"tv", "reward", "sequence", "policy_gradient"}) {
    for (const char* horizon : {"token", "sequence"}) {
      if (std::string(bound) == "sequence" && std::string(horizon) == "token") continue;
      CAPTURE(bound);
      CAPTURE(horizon);
      CHECK(is_taken("numerical", fmt::format("bound: {}, horizon: {}, max: 0.5", bound, horizon),
                     Stage::offline_numeric));
    }
  }
  CHECK(is_taken("statistical", "outcome: correct, non_inferiority_margin: 0.03", Stage::statistical_slice));
}

}  // namespace
}  // namespace driftgate::stages
