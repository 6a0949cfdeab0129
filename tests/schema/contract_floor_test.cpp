#include <doctest/doctest.h>

#include <algorithm>

#include "schema/contract/contract.hpp"
#include "schema/contract/explain.hpp"
#include "schema/contract/least_n.hpp"
#include "tests/schema/contract_text.hpp"

namespace driftgate::schema {
namespace {

std::string faults_of(std::string_view from, std::string_view to) {
  return format_faults(parse_contract(contract_with(from, to), "c").faults, "c");
}

Clause clause_of(std::string_view from, std::string_view to, std::string_view address) {
  const auto report = parse_contract(contract_with(from, to), "c");
  CAPTURE(format_faults(report.faults, "c"));
  REQUIRE(report.contract);
  for (const Clause& clause : report.contract->clauses) {
    if (clause.address() == address) return clause;
  }
  FAIL("there is no clause " << address);
  return {};
}

TEST_CASE("a floor multiple stands beside max and under a cap") {
  CHECK(faults_of("max: 0.75", "max: 0.75, floor_multiple: 4").find("requires floor_cap") !=
        std::string::npos);
  CHECK(faults_of("max: 0.75", "min: 0.75, floor_multiple: 4, floor_cap: 1").find("stands only beside max") !=
        std::string::npos);
  CHECK(
      faults_of("max: 0.75", "max: 0.75, floor_multiple: 4, floor_cap: 0.5").find("a cap of at least max") !=
      std::string::npos);
  CHECK(
      faults_of("max: 0.75", "max: 0.75, floor_cap: 1").find("floor_cap stands only beside floor_multiple") !=
      std::string::npos);
  CHECK_FALSE(faults_of("max: 0.75", "max: 0.75, floor_multiple: 0.5, floor_cap: 1").empty());
  const Clause clause =
      clause_of("max: 0.75", "max: 0.75, floor_multiple: 4, floor_cap: 2", "numerical.span");
  CHECK(clause.limits.floor_multiple == 4);
  CHECK(clause.limits.floor_cap == 2);
  CHECK(demand_text(clause) == "p99 of logit_span at most 0.75 (or 4 times the noise floor, never over 2)");
}

TEST_CASE("a floor multiple is for distances that captures give") {
  const std::string span = "metric: logit_span, aggregate: p99, max: 0.75";
  const auto with = [&](std::string_view subject) {
    return faults_of(span, std::string(subject) + ", max: 0.75, floor_multiple: 4, floor_cap: 0.8");
  };
  CHECK(with("metric: tv, aggregate: mean").empty());
  CHECK(with("metric: logit_span, aggregate: max").empty());
  CHECK(with("metric: abs_log_ratio, clip: 2").empty());
  for (const char* subject : {"metric: top1_flip, aggregate: sum", "metric: tv, aggregate: min",
                              "metric: entropy_inf, aggregate: mean", "metric: topk_overlap, aggregate: mean",
                              "metric: ess_fraction", "metric: tv_sampled", "metric: batch_variant_rate"}) {
    CAPTURE(subject);
    CHECK(with(subject).find("floor_multiple makes no sense here") != std::string::npos);
  }
  CHECK(faults_of(span,
                  "metric: abs_log_ratio, clip: 2, max: 0.5, floor_multiple: 4, floor_cap: 1, "
                  "stages: [offline-numeric, shadow-runtime]")
            .find("a noise floor is measured on captures") != std::string::npos);
}

TEST_CASE("a clause with a floor needs what half of its level needs") {
  const auto report =
      parse_contract(contract_with("max: 0.75", "max: 0.75, floor_multiple: 4, floor_cap: 2"), "c");
  REQUIRE(report.contract);
  const Clause clause =
      clause_of("max: 0.75", "max: 0.75, floor_multiple: 4, floor_cap: 2", "numerical.span");
  const auto needs = least_n(clause, *report.contract);
  REQUIRE(needs.size() == 1);
  const double alpha = spent_alpha_fixed(report.contract->confidence.alpha, 1) / 2;
  CHECK(needs[0].alpha == alpha);
  CHECK(needs[0].n == least_n_betting(1 - 0.99, alpha));
}

TEST_CASE("the batch variant rate is limited from above where captures or traffic give it") {
  const std::string span = "metric: logit_span, aggregate: p99, max: 0.75";
  const Clause offline = clause_of(span, "metric: batch_variant_rate, max: 0.05", "numerical.span");
  CHECK(offline.stages == stage_bit(Stage::offline_numeric));
  CHECK(faults_of(span, "metric: batch_variant_rate, min: 0.05").find("allowed: max") != std::string::npos);
  const std::string ttft = "metric: ttft_ms, aggregate: p95, max_ratio: 1.1";
  const auto report = parse_contract(contract_with(ttft, "metric: batch_variant_rate, max: 0.05"), "c");
  REQUIRE(report.contract);
  const auto found = std::ranges::find_if(report.contract->clauses, [](const Clause& clause) {
    const auto* metric = std::get_if<MetricSubject>(&clause.subject);
    return metric != nullptr && metric->metric == Metric::batch_variant_rate;
  });
  REQUIRE(found != report.contract->clauses.end());
  CHECK(found->stages == stage_bit(Stage::shadow_runtime));
  const auto needs = least_n(*found, *report.contract);
  REQUIRE(needs.size() == 1);
  CHECK(needs[0].unit == "prompts");
  CHECK(needs[0].n == least_n_binomial(0.05, spent_alpha_fixed(report.contract->confidence.alpha, 1)));
}

}  // namespace
}  // namespace driftgate::schema
