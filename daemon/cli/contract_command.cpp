#include "daemon/cli/contract_command.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "schema/contract.hpp"
#include "schema/document_node.hpp"
#include "schema/explain.hpp"
#include "schema/json.hpp"

namespace driftgate::cli {
namespace {

constexpr int kOk = 0, kFaults = 1, kUsage = 64, kIo = 74;

schema::Result<std::string> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  // One byte more than allowed, so that the parser sees a file that is too large and says so.
  std::string text(schema::kMaxDocumentBytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream && !stream.eof()) {
    return schema::fail(
        schema::ErrorCode::io,
        fmt::format("cannot read the contract {}; check that the file exists and is readable", path));
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

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

}  // namespace

int contract_lint(const std::vector<std::string>& files, bool json) {
  if (files.empty()) {
    fmt::print(stderr, "contract lint: name at least one file\n");
    return kUsage;
  }
  int status = kOk;
  auto reports = nlohmann::json::array();
  for (const std::string& file : files) {
    const auto text = read_file(file);
    if (!text) {
      fmt::print(stderr, "{}\n", text.error().describe());
      status = kIo;
      continue;
    }
    const schema::ContractReport report = schema::parse_contract(*text, file);
    if (!report.contract && status == kOk) status = kFaults;
    if (json) {
      reports.push_back(report_json(file, report));
    } else {
      print_report(file, report);
    }
  }
  if (json) fmt::print("{}\n", schema::canonical_json(reports));
  return status;
}

int contract_explain(const std::string& file, bool json) {
  const auto text = read_file(file);
  if (!text) {
    fmt::print(stderr, "{}\n", text.error().describe());
    return kIo;
  }
  const schema::ContractReport report = schema::parse_contract(*text, file);
  if (!report.contract) {
    if (json) fmt::print("{}\n", schema::canonical_json(report_json(file, report)));
    print_report(file, report);
    return kFaults;
  }
  const schema::Explanation explanation = schema::explain(*report.contract);
  if (json) {
    fmt::print("{}\n", schema::to_json(explanation));
  } else {
    fmt::print("{}", schema::to_text(explanation));
  }
  return kOk;
}

}  // namespace driftgate::cli
