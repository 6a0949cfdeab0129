#include "daemon/cli/contract/contract_command.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/cli/contract/contract_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/explain.hpp"
#include "schema/json.hpp"
#include "stages/power.hpp"

namespace driftgate::cli {
namespace {

constexpr std::uint64_t kPowerSeed = 1;

nlohmann::json faults_json(const std::vector<schema::Fault>& faults) {
  auto out = nlohmann::json::array();
  for (const schema::Fault& fault : faults) {
    out.push_back({{"line", fault.position.line},
                   {"column", fault.position.column},
                   {"pointer", fault.pointer},
                   {"message", fault.message}});
  }
  return out;
}

nlohmann::json report_json(const std::string& file, const schema::ContractReport& report) {
  nlohmann::json out = {{"file", file},
                        {"valid", report.contract.has_value()},
                        {"faults", faults_json(report.faults)},
                        {"warnings", faults_json(report.warnings)}};
  if (report.contract) {
    out["name"] = report.contract->name;
    out["digest"] = report.contract->digest;
  }
  return out;
}

void print_report(const std::string& file, const schema::ContractReport& report) {
  fmt::print(stderr, "{}", schema::format_faults(report.faults, file));
  for (const schema::Fault& warning : report.warnings) {
    schema::Fault marked = warning;
    marked.message = "warning: " + marked.message;
    fmt::print(stderr, "{}", schema::format_faults({marked}, file));
  }
  if (report.contract) fmt::print("{}: ok, {}\n", file, report.contract->digest);
}

std::string time_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 7'200) return fmt::format("{:.0f} min", std::ceil(seconds / 60));
  return fmt::format("{:.1f} h", seconds / 3'600);
}

std::string power_text(const std::vector<stages::ClausePower>& powers, const schema::Contract& contract,
                       double requests_per_second) {
  if (powers.empty()) return {};
  std::string text =
      fmt::format("\nSamples needed to pass in {:.0f} of 10 runs when the true value is half the limit\n",
                  10 * stages::kPowerWanted);
  for (const stages::ClausePower& power : powers) {
    if (!power.n) {
      text += fmt::format("  - {} in {}: {}\n", power.clause, schema::to_string(power.stage), power.why_not);
      continue;
    }
    text += fmt::format("  - {} in {}: about {} {} (assuming {})\n", power.clause,
                        schema::to_string(power.stage), *power.n, power.unit, power.assumes);
    for (const auto& step : stages::durations(power, contract, requests_per_second)) {
      text += fmt::format("      {} at {}% of {:g} requests a second, each with a key of its own\n",
                          time_text(step.seconds), step.share_bp / 100.0, requests_per_second);
    }
  }
  return text;
}

nlohmann::json power_json(const std::vector<stages::ClausePower>& powers, const schema::Contract& contract,
                          double requests_per_second) {
  auto list = nlohmann::json::array();
  for (const stages::ClausePower& power : powers) {
    nlohmann::json item = {{"clause", power.clause},   {"stage", schema::to_string(power.stage)},
                           {"unit", power.unit},       {"alpha", power.alpha},
                           {"assumes", power.assumes}, {"why_not", power.why_not}};
    item["n"] = power.n ? nlohmann::json(*power.n) : nlohmann::json(nullptr);
    auto steps = nlohmann::json::array();
    for (const auto& step : stages::durations(power, contract, requests_per_second))
      steps.push_back({{"share_bp", step.share_bp}, {"seconds", step.seconds}});
    item["durations"] = std::move(steps);
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace

int contract_lint(const std::vector<std::string>& files, bool json) {
  if (files.empty()) {
    fmt::print(stderr, "driftgate: contract lint needs at least one file\n");
    return kExitUsage;
  }
  int status = kExitOk;
  auto reports = nlohmann::json::array();
  for (const std::string& file : files) {
    const auto text = read_contract_text(file);
    if (!text) {
      status = report_offline(text.error());
      continue;
    }
    const schema::ContractReport report = schema::parse_contract(*text, file);
    if (!report.contract && status == kExitOk) status = kExitViolated;
    if (json) {
      reports.push_back(report_json(file, report));
    } else {
      print_report(file, report);
    }
  }
  if (json) fmt::print("{}\n", schema::canonical_json(reports));
  return status;
}

int contract_explain(const std::string& file, double requests_per_second, bool json) {
  const auto text = read_contract_text(file);
  if (!text) return report_offline(text.error());
  const schema::ContractReport report = schema::parse_contract(*text, file);
  if (!report.contract) {
    if (json) fmt::print("{}\n", schema::canonical_json(report_json(file, report)));
    print_report(file, report);
    return kExitViolated;
  }
  const schema::Explanation explanation = schema::explain(*report.contract);
  const auto powers = stages::power_at_half(*report.contract, kPowerSeed);
  if (!json) {
    fmt::print("{}{}", schema::to_text(explanation),
               power_text(powers, *report.contract, requests_per_second));
    return kExitOk;
  }
  auto out = nlohmann::json::parse(schema::to_json(explanation));
  out["power_at_half"] = power_json(powers, *report.contract, requests_per_second);
  fmt::print("{}\n", schema::canonical_json(out));
  return kExitOk;
}

}  // namespace driftgate::cli
