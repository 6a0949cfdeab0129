#include "daemon/cli/contract/contract_command.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/drift/contract_file.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/net/url.hpp"
#include "daemon/pipeline/requests/ability_gaps.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/explain.hpp"
#include "schema/json.hpp"
#include "stages/planning/planning_text.hpp"

namespace driftgate::cli {
namespace {

using schema::Result;

constexpr std::uint64_t kPowerSeed = 1;
constexpr std::uint32_t kMostRuns = 1'000;  ///< that --run takes

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
    fmt::print(stderr, "driftgate: contract lint needs at least one file\n");
    return kExitUsage;
  }
  int status = kExitOk;
  auto reports = nlohmann::json::array();
  for (const std::string& file : files) {
    const auto text = drift::read_contract_text(file);
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

namespace {

Result<stages::EngineCan> ask_abilities(Client& client, const std::string& engine) {
  if (engine.empty()) return stages::able_engine();
  const auto answer = TRY(parse_answer(client.get("/v1/engines/" + net::percent_encode(engine))));
  const auto abilities =
      TRY(jobs::abilities_from_json(schema::canonical_json(member_of(answer, "abilities"))));
  return jobs::engine_can(engine, abilities);
}

/// What registered engines leave undecided.
struct Lacking {
  std::vector<stages::AbilityGap> gaps;
  std::optional<std::string> rescoring;  ///< see stages::rescoring_gap
};

std::string lacking_text(const std::string& engine, const Lacking& lacking) {
  std::string text = fmt::format("\nThe engine {} has every ability that the clauses need.\n", engine);
  if (!lacking.gaps.empty()) text = "\nClauses that cannot be decided for lack of an engine's ability\n";
  for (const auto& gap : lacking.gaps) text += fmt::format("  - {}\n", gap.message);
  return lacking.rescoring ? text + *lacking.rescoring + "\n" : text;
}

void print_explanation(const ExplainArgs& args, const schema::Contract& contract,
                       const std::optional<Lacking>& lacking) {
  const schema::Explanation explanation = schema::explain(contract, args.run);
  const auto powers = stages::power_at_half(contract, kPowerSeed, schema::Runs(args.run));
  const auto regressions = stages::smallest_regressions(contract, powers, kPowerSeed, schema::Runs(args.run),
                                                        args.requests_per_second);
  if (!args.json) {
    fmt::print("{}{}{}{}", schema::to_text(explanation),
               stages::power_text(powers, contract, args.requests_per_second),
               stages::regressions_text(regressions), lacking ? lacking_text(args.engine, *lacking) : "");
    return;
  }
  auto out = nlohmann::json::parse(schema::to_json(explanation));
  out["power_at_half"] =
      nlohmann::json::parse(stages::power_json(powers, contract, args.requests_per_second));
  out["smallest_regressions"] = nlohmann::json::parse(stages::regressions_json(regressions));
  if (lacking) out["undecidable"] = pipeline::gaps_json(lacking->gaps);
  if (lacking && lacking->rescoring) out["no_rescoring"] = *lacking->rescoring;
  fmt::print("{}\n", schema::canonical_json(out));
}

}  // namespace

void add_explain_options(CLI::App& sub, ExplainArgs& into) {
  sub.add_option("--rate", into.requests_per_second,
                 "Requests per second, to estimate how long each stage of traffic takes");
  sub.add_option("--run", into.run, "Sizes of the K-th run of one checkpoint and kernel, on new data (1)")
      ->type_name("K")
      ->check(CLI::Range(1U, kMostRuns));
  auto* engine = sub.add_option("--engine", into.engine,
                                "Registered engine, to see which clauses it is not able to have decided");
  sub.add_option("--incumbent", into.incumbent, "Registered engine that it would replace")->needs(engine);
  sub.add_flag("--json", into.json, "Print JSON");
}

int contract_explain(const ExplainArgs& args, const ConnectionArgs& connection) {
  const auto text = drift::read_contract_text(args.file);
  if (!text) return report_offline(text.error());
  const schema::ContractReport report = schema::parse_contract(*text, args.file);
  if (!report.contract) {
    if (args.json) fmt::print("{}\n", schema::canonical_json(report_json(args.file, report)));
    print_report(args.file, report);
    return kExitViolated;
  }
  if (args.engine.empty()) {
    print_explanation(args, *report.contract, std::nullopt);
    return kExitOk;
  }
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const auto candidate = TRY(ask_abilities(client, args.engine));
    const auto incumbent = TRY(ask_abilities(client, args.incumbent));
    print_explanation(args, *report.contract,
                      Lacking{stages::ability_gaps(*report.contract, incumbent, candidate),
                              stages::rescoring_gap(*report.contract, candidate)});
    return kExitOk;
  });
}

}  // namespace driftgate::cli
