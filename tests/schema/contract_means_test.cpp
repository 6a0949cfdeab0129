#include "schema/contract/contract_means.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "schema/contract/explain.hpp"
#include "schema/contract/stored_contract.hpp"
#include "tests/schema/contract_text.hpp"

namespace driftgate::schema {
namespace {

constexpr std::string_view kTv = "metric: tv, aggregate: mean, max: 0.02, slices: [critical]";
constexpr std::string_view kSpan = "metric: logit_span, aggregate: p99, max: 0.75";

std::string with_clause(std::string_view from, std::string_view to) {
  std::string text = contract_with(from, to);
  REQUIRE_FALSE(text.empty());
  return text;
}

std::string with_confidence(std::string text, std::string_view confidence) {
  return text.replace(text.find("escalation:"), 0, "confidence: {" + std::string(confidence) + "}\n");
}

Contract parse(const std::string& text) {
  ContractReport report = parse_contract(text, "c");
  INFO(format_faults(report.faults, "c"));
  REQUIRE(report.contract.has_value());
  return std::move(*report.contract);
}

const Clause& clause_of(const Contract& contract, std::string_view address) {
  for (const Clause& clause : contract.clauses)
    if (clause.address() == address) return clause;
  FAIL("no such clause");
  return contract.clauses.front();
}

void check_fault(const std::string& text, std::string_view expected) {
  const ContractReport report = parse_contract(text, "c");
  const std::string faults = format_faults(report.faults, "c");
  CAPTURE(faults);
  CAPTURE(std::string(expected));
  CHECK_FALSE(report.contract.has_value());
  CHECK(report.faults.size() == 1);
  CHECK(faults.find(expected) != std::string::npos);
}

TEST_CASE("each sequence counts once unless the clause says otherwise") {
  const auto aggregate = [](const std::string& text, std::string_view address) {
    const Contract contract = parse(text);
    return std::get<MetricSubject>(clause_of(contract, address).subject).aggregate;
  };
  CHECK(aggregate(with_clause(kTv, "metric: tv, max: 0.02"), "statistical.tv") == Aggregate::sequence_mean);
  CHECK(aggregate(with_clause(kTv, "metric: tv, aggregate: mean, max: 0.02"), "statistical.tv") ==
        Aggregate::mean);
  CHECK(aggregate(with_clause(kSpan, "metric: clip_budget_used, max: 0.1"), "numerical.span") ==
        Aggregate::sequence_mean);
  CHECK(aggregate(with_clause(kSpan, "metric: band_retention, band: tokens.1pct, min: 0.9"),
                  "numerical.span") == Aggregate::sequence_mean);
  check_fault(contract_with("aggregate: sum, ", ""),
              "the field \"aggregate\" is missing; allowed for nonfinite");
}

TEST_CASE("clip, over and means are read, explained and told apart from rows") {
  const std::string text = with_confidence(
      with_clause(
          kTv,
          "metric: tv, clip: 0.25, max: 0.02}\n  - {id: tail, metric: tv, aggregate: p97, over: sequences, "
          "max: 0.25}\n  - {id: rows, metric: tv, aggregate: p97, over: rows, max: 0.3"),
      "means: approximate");
  const Contract contract = parse(text);
  CHECK(contract.confidence.means == Means::approximate);
  CHECK(clause_of(contract, "statistical.tv").clip == 0.25);
  CHECK(clause_of(contract, "statistical.tail").over == QuantileOver::sequences);
  CHECK(clause_of(contract, "statistical.rows").over == QuantileOver::rows);
  CHECK(demand_text(clause_of(contract, "statistical.tv")) ==
        "sequence_mean of tv, each sequence's counted as at most 0.25, at most 0.02");
  CHECK(demand_text(clause_of(contract, "statistical.tail")) ==
        "p97 of tv over the means of sequences at most 0.25");
  CHECK(demand_text(clause_of(contract, "statistical.rows")) == "p97 of tv over all rows at most 0.3");
  for (const char* over : {"", "over: average_sequence, "}) {
    const Clause clause =
        clause_of(parse(with_clause(kTv, std::string("metric: tv, aggregate: p97, ") + over + "max: 0.3")),
                  "statistical.tv");
    CHECK(clause.over == QuantileOver::average_sequence);
    CHECK(demand_text(clause) == "p97 of tv over the rows of an average sequence at most 0.3");
  }
  CHECK(parse(std::string(kContractText)).confidence.means == Means::exact);
}

TEST_CASE("an unbounded mean needs a clip or the approximate method, and both are named") {
  for (const char* metric : {"kl_inf_train", "abs_log_ratio", "chi2_sequence", "top1_margin"}) {
    CAPTURE(metric);
    const bool low = std::string(metric) == "top1_margin";
    const std::string limit = low ? "min: 0.5" : "max: 0.5";
    const std::string clause = std::string("metric: ") + metric + ", " + limit;
    check_fault(with_clause(kSpan, clause),
                "write clip: X (each sequence's mean then counts as at most X), or "
                "confidence: {means: approximate}");
    CHECK(parse(with_clause(kSpan, clause + ", clip: 2")).clauses.size() == 8);
    CHECK(parse(with_confidence(with_clause(kSpan, clause), "means: approximate")).clauses.size() == 8);
  }
  check_fault(with_clause(kSpan, "metric: kl_inf_train, aggregate: mean, max: 0.5"),
              "write aggregate: sequence_mean with clip: X");
  // No cap from above bounds what has no smallest value.
  check_fault(with_clause(kSpan, "metric: log_ratio, max: 0.5"), "; write confidence: {means: approximate}");
  check_fault(with_clause(kSpan, "metric: ratio_mean, max: 1.5"), "; write confidence: {means: approximate}");
  check_fault(with_clause(kSpan, "metric: logprob_inf, max_delta: 0.5"),
              "; write confidence: {means: approximate}");
  CHECK(parse(with_clause(kSpan, "metric: entropy_inf, max_delta: 0.5")).clauses.size() == 8);
}

TEST_CASE("a token-weighted mean needs max_tokens, known before the data") {
  std::string text(kContractText);
  const std::string stated = "  max_tokens: 512\n";
  text.replace(text.find(stated), stated.size(), "");
  check_fault(text, "needs the most tokens that a sequence can have; write aggregate: sequence_mean");
  CHECK(parse(with_confidence(text, "means: approximate")).clauses.size() == 8);
  const std::string mean = "aggregate: mean, ";
  CHECK(parse(text.replace(text.find(mean), mean.size(), "")).clauses.size() == 8);
}

TEST_CASE("a quantile over all rows needs max_tokens as well") {
  std::string text = with_clause(kTv, "metric: tv, aggregate: p90, over: rows, max: 0.1");
  CHECK(parse(text).clauses.size() == 8);
  const std::string stated = "  max_tokens: 512\n";
  text.replace(text.find(stated), stated.size(), "");
  check_fault(text, "the exact limit of that share needs the most tokens that a sequence can have");
  // One that was registered before is read, and decides nothing without the length.
  CHECK(parse_stored_contract(text, "c").contract.has_value());
}

TEST_CASE("a stored contract is read as it was registered, whatever registration refuses since") {
  const std::string text = with_clause(kSpan, "metric: kl_inf_train, aggregate: mean, max: 0.5");
  CHECK_FALSE(parse_contract(text, "c").contract.has_value());
  const ContractReport stored = parse_stored_contract(text, "c");
  INFO(format_faults(stored.faults, "c"));
  REQUIRE(stored.contract.has_value());
  CHECK_FALSE(why_no_exact_mean(clause_of(*stored.contract, "numerical.span"), *stored.contract).empty());
  // Every other fault stays one.
  CHECK_FALSE(
      parse_stored_contract(with_clause(kSpan, "metric: kl_inf_trian, max: 0.5"), "c").contract.has_value());
}

TEST_CASE("a clip that caps nothing or everything is a fault") {
  struct Case {
    std::string_view from, to, expected;
  };
  for (const Case& test : std::vector<Case>{
           {kTv, "metric: tv, clip: 0.02, max: 0.02", "found the number 0.02; allowed: a clip over 0.02"},
           {kTv, "metric: tv, clip: 0.03, max: 0.02, floor_multiple: 4, floor_cap: 0.04",
            "allowed: a clip over 0.04"},
           {kTv, "metric: tv, clip: 1, max: 0.02", "found the number 1; allowed: a number in (0, 1)"},
           {kTv, "metric: tv, clip: 0, max: 0.02", "found the number 0; allowed: a number in (0, 1)"},
           {kTv, "metric: tv, aggregate: mean, clip: 0.2, max: 0.02",
            "stands beside aggregate: sequence_mean"},
           {kTv, "metric: tv, aggregate: p97, clip: 0.2, max: 0.02",
            "stands beside aggregate: sequence_mean"},
           {kSpan, "metric: log_ratio, clip: 2, max: 0.5", "have no smallest one"},
           {kSpan, "metric: entropy_inf, max_delta: 0.5, clip: 2", "clip stands only beside max or min"},
           {"bound: reward, max: 0.05", "bound: reward, max: 0.05, clip: 0.5",
            "clip is for clauses on a metric"},
           {"aggregate: p95, max_ratio: 1.1", "aggregate: p95, max_ratio: 1.1, clip: 2",
            "of what captures measure"},
           {kTv, "metric: tv, over: sequences, max: 0.02", "over says what a quantile of captures counts"},
           {kTv, "metric: tv, aggregate: p97, over: sequence, max: 0.2", "did you mean \"sequences\"?"},
           {"aggregate: p95, max_ratio: 1.1", "aggregate: p95, over: sequences, max_ratio: 1.1",
            "over says what a quantile of captures counts"},
           {kSpan, "metric: abs_log_ratio, aggregate: p97, max: 0.5", "write over: sequences"},
       }) {
    check_fault(with_clause(test.from, test.to), test.expected);
  }
  check_fault(with_confidence(std::string(kContractText), "means: exactly"), "did you mean \"exact\"?");
}

TEST_CASE("lint asks for a quantile clause beside a clip, on the same slices") {
  const auto warned = [](std::string_view clauses) {
    const ContractReport report = parse_contract(with_clause(kTv, clauses), "c");
    INFO(format_faults(report.faults, "c"));
    REQUIRE(report.contract.has_value());
    return format_faults(report.warnings, "c").find("no clause says how many sequences may lie above that") !=
           std::string::npos;
  };
  const std::string clip = "metric: tv, clip: 0.25, max: 0.02, slices: [critical]";
  const std::string tail = "}\n  - {id: tail, metric: tv, aggregate: p97, over: sequences, max: ";
  CHECK(warned(clip));
  CHECK(warned(clip + tail + "0.25"));
  CHECK(warned(clip + tail + "0.26, slices: [critical]"));
  CHECK_FALSE(warned(clip + tail + "0.25, slices: [critical]"));
  CHECK_FALSE(warned(clip + tail + "0.2, slices: [critical, monitored]"));
  const Contract contract = parse(with_clause(kTv, clip + tail + "0.25, slices: [critical]"));
  const Clause* beside = quantile_beside(clause_of(contract, "statistical.tv"), contract);
  REQUIRE(beside != nullptr);
  CHECK(beside->address() == "statistical.tail");
}

}  // namespace
}  // namespace driftgate::schema
