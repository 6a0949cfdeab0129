#include "stages/suggest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "gpu/drift.hpp"
#include "schema/contract/contract_means.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/statistical_slice.hpp"
#include "tests/stages/make.hpp"

namespace driftgate::stages {
namespace {

/// Rows of `sequences` sequences in two languages whose tv scatters around `tv`, German `german` times worse.
gpu::MeasurementTable measured(std::size_t sequences, double tv, double german,
                               std::vector<gpu::Threshold> thresholds = {}) {
  gpu::MeasurementTable table = make::table(std::move(thresholds));
  table.train.kernel = "k-train";
  table.inf.kernel = "k-inf";
  gpu::SliceHistograms corpus;
  for (std::size_t i = 0; i < sequences; ++i) {
    const bool de = i % 2 == 0;
    const double value = tv * (de ? german : 1) * (0.8 + 0.05 * static_cast<double>(i % 9));
    make::append(table, {10, value, {{"language", de ? "de" : "en"}}});
    for (const auto metric : {schema::Metric::tv, schema::Metric::logit_span, schema::Metric::kl_inf_train}) {
      const double mean = table.sequences.back().metrics[make::at(metric)].mean();
      for (int row = 0; row < 10; ++row) corpus.histograms[make::at(metric)].add(mean);
    }
  }
  table.slices.push_back(corpus);
  return table;
}

schema::Contract parse(const std::string& text) {
  const schema::ContractReport report = schema::parse_contract(text, "suggested.yaml");
  REQUIRE_MESSAGE(report.contract.has_value(), schema::format_faults(report.faults, "suggested.yaml")
                                                   << text);
  return *report.contract;
}

TEST_CASE("a suggestion parses and passes what it was made from") {
  const auto first = measured(300, 0.004, 1);
  const auto text = suggest_contract({&first, nullptr, nullptr, "mine", 2, 0.05, "A and B"});
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  const schema::Contract contract = parse(*text);
  CHECK(contract.train_kernel == "k-train");
  const auto table = measured(300, 0.004, 1, required_thresholds(contract));
  for (const StageReport& report :
       {evaluate_offline_numeric(contract, table, {}), evaluate_statistical_slice(contract, table, {})}) {
    for (const auto& verdict : report.clauses) INFO(verdict.clause, ": ", verdict.message);
    CHECK(report.verdict == schema::Verdict::pass);
    CHECK_FALSE(report.nothing_demanded);
  }
}

TEST_CASE(
    "a suggested mean is clipped above all that was seen, with the quantile clause at the clip beside it") {
  const auto table = measured(300, 0.004, 1);
  const auto text = suggest_contract({&table, nullptr, nullptr, "mine", 2, 0.05, ""});
  REQUIRE(text.has_value());
  const schema::ContractReport report = schema::parse_contract(*text, "suggested.yaml");
  INFO(*text, schema::format_faults(report.warnings, "suggested.yaml"));
  REQUIRE(report.contract.has_value());
  CHECK(report.warnings.empty());
  const schema::Contract& contract = *report.contract;
  CHECK(contract.confidence.means == schema::Means::exact);
  std::size_t clipped = 0;
  for (const schema::Clause& clause : contract.clauses) {
    if (!clause.clip) continue;
    ++clipped;
    CHECK(*clause.clip > *clause.limits.max);
    const schema::Clause* beside = schema::quantile_beside(clause, contract);
    REQUIRE(beside != nullptr);
    CHECK(*beside->limits.max == *clause.clip);
    CHECK(std::get<schema::MetricSubject>(beside->subject).aggregate == schema::Aggregate::p97);
  }
  CHECK(clipped == 3);  // kl, tv, slice-tv
  CHECK(contract.slices.min_sequences == 116);
}

TEST_CASE("a suggestion from few sequences keeps to quantiles that they can prove") {
  const auto table = measured(90, 0.004, 1);
  const schema::Contract contract =
      parse(suggest_contract({&table, nullptr, nullptr, "mine", 2, 0.05, ""}).value());
  for (const schema::Clause& clause : contract.clauses) {
    if (clause.over != schema::QuantileOver::sequences) continue;
    const auto quantile = std::get<schema::MetricSubject>(clause.subject).aggregate;
    // 90 sequences prove a p95 (69), and the 45 of a language a p90 (34).
    CHECK(quantile == (clause.slices.empty() ? schema::Aggregate::p95 : schema::Aggregate::p90));
  }
}

TEST_CASE("a suggestion does not pass a kernel that is wholly wrong on some sequences") {
  const auto first = measured(300, 0.004, 1);
  const schema::Contract contract =
      parse(suggest_contract({&first, nullptr, nullptr, "mine", 2, 0.05, ""}).value());
  auto table = make::table(required_thresholds(contract));
  for (std::size_t i = 0; i < 300; ++i) {
    make::append(table, {10, i % 12 == 0 ? 0.9 : 0.004, {{"language", i % 2 == 0 ? "de" : "en"}}});
  }
  const StageReport report = evaluate_offline_numeric(contract, table, {});
  const auto tail = std::ranges::find(report.clauses, "numerical.tv-tail", &schema::ClauseVerdict::clause);
  REQUIRE(tail != report.clauses.end());
  CHECK(tail->verdict == schema::Verdict::violated);
}

TEST_CASE("a suggestion refuses a kernel that is several times worse") {
  const auto first = measured(300, 0.004, 1);
  const schema::Contract contract =
      parse(suggest_contract({&first, nullptr, nullptr, "mine", 2, 0.05, ""}).value());
  const auto worse = measured(300, 0.02, 1, required_thresholds(contract));
  CHECK(evaluate_offline_numeric(contract, worse, {}).verdict == schema::Verdict::violated);
}

TEST_CASE("the slice limit leaves room for the worst language and names it") {
  const auto table = measured(300, 0.004, 3);
  const auto text = suggest_contract({&table, nullptr, nullptr, "mine", 2, 0.05, ""});
  REQUIRE(text.has_value());
  CHECK(text->find("on language=de") != std::string::npos);
  const schema::Contract contract = parse(*text);
  double corpus = 0, slices = 0;
  for (const schema::Clause& clause : contract.clauses) {
    if (clause.id == "tv") corpus = *clause.limits.max;
    if (clause.id == "slice-tv") slices = *clause.limits.max;
  }
  CHECK(slices > corpus);
}

TEST_CASE("floors stand beside the figures") {
  const auto table = measured(300, 0.004, 1);
  const auto floor = measured(300, 0.001, 1);
  const auto text = suggest_contract({&table, &floor, nullptr, "mine", 2, 0.05, ""});
  REQUIRE(text.has_value());
  CHECK(text->find(", floor of K_train 0.00") != std::string::npos);
}

TEST_CASE("a name with quotes stays inside its quotes") {
  const auto table = measured(60, 0.004, 1);
  const auto text = suggest_contract({&table, nullptr, nullptr, "a \"b\": c", 2, 0.05, "x\ny: z"});
  REQUIRE(text.has_value());
  CHECK(text->find("x y: z") != std::string::npos);
}

TEST_CASE("no headroom and logits that are not finite are refused") {
  auto table = measured(60, 0.004, 1);
  CHECK(suggest_contract({&table, nullptr, nullptr, "mine", 1, 0.05, ""}).error().message.find("over 1") !=
        std::string::npos);
  table.nonfinite_rows = 3;
  CHECK(suggest_contract({&table, nullptr, nullptr, "mine", 2, 0.05, ""}).error().message.find("NaN") !=
        std::string::npos);
}

}  // namespace
}  // namespace driftgate::stages
