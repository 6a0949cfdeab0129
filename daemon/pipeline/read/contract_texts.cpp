#include "daemon/pipeline/read/contract_texts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/requests/checked_request.hpp"
#include "schema/contract/contract_diff.hpp"
#include "schema/contract/explain.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/document/yaml_text.hpp"
#include "schema/json.hpp"
#include "stages/planning/planning_text.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

constexpr std::uint64_t kPowerSeed = 1;  // as `driftgate contract explain`
constexpr int kIndent = 2;

/// The document for people to read, and the contract with the places in it.
struct Printed {
  std::string text;
  schema::Contract contract;
};

/// The text that was registered is not kept, only its canonical form. It is printed as YAML; as JSON if that
/// should not come to the same contract.
schema::Result<Printed> print(const store::ContractRow& row) {
  const auto document = json::parse(row.canonical, nullptr, false);
  for (const auto& text : {schema::yaml_text(document), document.dump(kIndent) + "\n"}) {
    auto report = schema::parse_stored_contract(text, row.name);
    if (report.contract && report.contract->digest == row.digest)
      return Printed{text, std::move(*report.contract)};
  }
  return schema::fail(schema::ErrorCode::corrupt,
                      fmt::format("the stored contract {} cannot be read", row.digest));
}

json faults_json(const std::vector<schema::Fault>& faults) {
  json list = json::array();
  for (const auto& fault : faults)
    list.push_back({{"line", fault.position.line},
                    {"column", fault.position.column},
                    {"pointer", fault.pointer},
                    {"message", fault.message}});
  return list;
}

/// By the rules for contracts that are registered now.
json lint_json(const std::string& text, const std::string& name) {
  const auto report = schema::parse_contract(text, name);
  return {{"valid", report.contract.has_value()},
          {"faults", faults_json(report.faults)},
          {"warnings", faults_json(report.warnings)}};
}

json clause_json(const schema::Clause& clause, const schema::Explanation& explanation) {
  json needs = json::array();
  for (const auto& stage : explanation.stages) {
    for (const auto& demand : stage.demands) {
      if (demand.clause != clause.address()) continue;
      needs.push_back({{"stage", schema::to_string(stage.stage)},
                       {"least_n", demand.needs.n ? json(*demand.needs.n) : json(nullptr)},
                       {"unit", demand.needs.unit},
                       {"alpha", demand.needs.alpha},
                       {"text", schema::needs_text(demand)}});
    }
  }
  return {{"clause", clause.address()},
          {"family", schema::to_string(clause.family)},
          {"severity", schema::to_string(clause.severity)},
          {"line", clause.position.line > 0 ? json(clause.position.line) : json(nullptr)},
          {"text", schema::demand_text(clause)},
          {"needs", std::move(needs)}};
}

/// "new" and "gone" where only one contract states it.
std::string_view change_name(schema::ChangeKind kind) {
  if (kind == schema::ChangeKind::added) return "new";
  return kind == schema::ChangeKind::removed ? "gone" : schema::to_string(kind);
}

json change_json(const schema::ContractChange& change) {
  const auto stated = [](const std::string& text) {
    return text.empty() ? std::string("(not stated)") : text;
  };
  const auto or_null = [](const std::string& text) { return text.empty() ? json(nullptr) : json(text); };
  return {{"change", change_name(change.kind)},
          {"where", change.where},
          {"text", fmt::format("{}: {} → {}", change.where, stated(change.before), stated(change.after))},
          {"before", or_null(change.before)},
          {"after", or_null(change.after)}};
}

}  // namespace

schema::Result<View> contract_explanation(const store::ContractRow& row) {
  const auto printed = TRY(print(row));
  const auto& contract = printed.contract;
  const auto explanation = schema::explain(contract);
  const auto powers = stages::power_at_half(contract, kPowerSeed);
  const auto regressions = stages::smallest_regressions(contract, powers, kPowerSeed);
  auto value = json::parse(schema::to_json(explanation));
  json clauses = json::array();
  for (const auto& clause : contract.clauses) clauses.push_back(clause_json(clause, explanation));
  value["digest"] = row.digest;
  value["name"] = row.name;
  value["yaml"] = printed.text;
  value["lint"] = lint_json(printed.text, row.name);
  value["clauses"] = std::move(clauses);
  value["power_at_half"] = json::parse(stages::power_json(powers, contract, 0));
  value["smallest_regressions"] = json::parse(stages::regressions_json(regressions));
  value["text"] = schema::to_text(explanation) + stages::power_text(powers, contract, 0) +
                  stages::regressions_text(regressions);
  return View{row.digest, 0, false, schema::canonical_json(value)};
}

schema::Result<View> contract_comparison(const store::ContractRow& from, const store::ContractRow& to) {
  const auto before = TRY(parse_contract_row(from));
  const auto after = TRY(parse_contract_row(to));
  const auto differences = schema::contract_diff(*before, *after);
  json changes = json::array();
  for (const auto& change : differences) changes.push_back(change_json(change));
  const json value{{"from", {{"digest", from.digest}, {"name", from.name}}},
                   {"to", {{"digest", to.digest}, {"name", to.name}}},
                   {"changes", std::move(changes)},
                   {"text", schema::to_text(differences)}};
  return View{from.digest, 0, false, schema::canonical_json(value)};
}

}  // namespace driftgate::pipeline
