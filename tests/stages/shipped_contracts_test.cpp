#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gpu/compare_bits.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/clauses/exact_test.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/statistical_slice.hpp"
#include "tests/stages/make.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;
using schema::Stage;
using schema::Verdict;

schema::Contract read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  schema::ContractReport report = schema::parse_contract(text, path.string());
  REQUIRE_MESSAGE(report.contract.has_value(), schema::format_faults(report.faults, path.string()));
  return *report.contract;
}

/// The largest sample that lint names for a clause on captures.
std::uint64_t largest_need(const schema::Contract& contract) {
  std::uint64_t most = 1;
  for (const schema::Clause& clause : contract.clauses) {
    for (const schema::LeastN& need : schema::least_n(clause, contract)) {
      if (need.stage != Stage::offline_numeric && need.stage != Stage::statistical_slice) continue;
      CAPTURE(clause.address());
      REQUIRE((need.n.has_value() || clause.limits.max == 0.0));
      most = std::max(most, need.n.value_or(1));
    }
  }
  return most;
}

/// The drift that a kernel of this profile may have: a quarter of the least limit of a mean of tv.
double allowed_tv(const schema::Contract& contract) {
  double least = 1;
  for (const schema::Clause& clause : contract.clauses) {
    if (std::holds_alternative<schema::ExactSubject>(clause.subject)) return 0;
    const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
    if (subject == nullptr || !clause.limits.max) continue;
    if (subject->metric == Metric::tv && clause.clip) least = std::min(least, *clause.limits.max);
  }
  return least / 4;
}

/// Three languages of as many sequences each, every third of them of one domain, whose tv scatters around `tv`.
gpu::MeasurementTable captured(const schema::Contract& contract, double tv, std::uint64_t of_each) {
  constexpr std::array kLanguages{"en", "de", "fr"};
  gpu::MeasurementTable table = make::table(required_thresholds(contract));
  table.has_tokens = true;
  for (std::uint64_t i = 0; i < 3 * of_each; ++i) {
    const double scatter = 0.5 + 0.125 * static_cast<double>(i % 9);
    make::append(table, {16,
                         tv * scatter,
                         {{"language", kLanguages.at(i % 3)},
                          {"domain", i / 3 % 2 == 0 ? "code" : "manual"},
                          {"prompt_length", i / 6 % 2 == 0 ? "short" : "long"}}});
    gpu::SequenceRow& row = table.sequences.back();
    row.target.n = 16;
    row.target.w = row.target.w_squares = row.target.exp_abs_log_w = 16;
  }
  for (const std::string& what : required_bits(contract)) {
    const std::uint64_t differing = tv > 0 ? table.rows : 0;
    table.partial.findings.push_back({gpu::bits_finding(what), "both", false, differing, table.rows, "compared"});
  }
  return table;
}

std::vector<StageReport> decide(const schema::Contract& contract, double tv, std::uint64_t of_each) {
  const gpu::MeasurementTable table = captured(contract, tv, of_each);
  return {evaluate_offline_numeric(contract, table, {}), evaluate_statistical_slice(contract, table, {})};
}

TEST_CASE("every shipped contract passes a kernel that it is for, on captures that are large enough") {
  for (const auto& entry : std::filesystem::directory_iterator("configs/contracts")) {
    CAPTURE(entry.path().string());
    const schema::Contract contract = read(entry.path());
    const std::uint64_t of_each = 2 * largest_need(contract);
    for (const StageReport& report : decide(contract, allowed_tv(contract), of_each)) {
      std::string told;
      for (const auto& verdict : report.clauses)
        if (verdict.verdict != Verdict::pass) told += verdict.clause + ": " + verdict.message + "\n";
      INFO(told);
      CHECK(report.verdict == Verdict::pass);
      CHECK_FALSE(report.nothing_demanded);
    }
  }
}

TEST_CASE("every shipped contract refuses a kernel that drifts far beyond its limits") {
  for (const auto& entry : std::filesystem::directory_iterator("configs/contracts")) {
    CAPTURE(entry.path().string());
    const schema::Contract contract = read(entry.path());
    const double tv = std::max(0.01, std::min(0.5, 20 * allowed_tv(contract)));
    for (const StageReport& report : decide(contract, tv, 2 * largest_need(contract)))
      CHECK(report.verdict == Verdict::violated);
  }
}

}  // namespace
}  // namespace driftgate::stages
