#include "daemon/evidence/verify/contract_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "schema/verdict_rule.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::Severity;
using schema::SliceRole;

namespace {

constexpr std::string_view kFamilies[] = {"numerical", "statistical", "runtime", "observability"};
constexpr std::string_view kDiscoveringStage = "statistical-slice";

bool is_text(const json& value) {
  return value.is_string();
}

/// The text of a member: `otherwise` when it is absent, nothing when it is no text.
std::optional<std::string> text_of(const json& object, const char* name, const char* otherwise) {
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

bool read_clause(const json& value, std::string_view family, ContractTerms& terms) {
  if (!value.is_object() || !value.contains("id") || !value["id"].is_string()) return false;
  const auto severity = text_of(value, "severity", "hard");
  if (severity != "hard" && severity != "soft") return false;
  const json slices = value.value("slices", json::array());
  if (!slices.is_array() || !std::ranges::all_of(slices, is_text)) return false;
  const bool on_critical = std::ranges::find(slices, json("critical")) != slices.end();
  terms.clauses[fmt::format("{}.{}", family, value["id"].get_ref<const std::string&>())] = {
      severity == "soft" ? Severity::soft : Severity::hard, on_critical};
  return true;
}

bool read_slices(const json& slices, ContractTerms& terms) {
  if (!slices.is_object()) return false;
  const json critical = slices.value("critical", json::array());
  if (!critical.is_array()) return false;
  for (const json& where : critical) {
    if (!where.is_object() || !std::ranges::all_of(where, is_text)) return false;
    terms.critical.push_back(where.get<schema::SliceWhere>());
  }
  const auto discover = slices.find("discover");
  if (discover == slices.end()) return true;
  if (!discover->is_object()) return false;
  const auto action = text_of(*discover, "action", "report");
  if (action != "report" && action != "block") return false;
  terms.discovery = schema::DiscoveryTerms{action == "block", {}};
  const auto ratio = discover->find("max_ratio");
  if (ratio == discover->end()) return true;
  if (!ratio->is_number()) return false;
  terms.discovery->max_ratio = ratio->get<double>();
  return true;
}

bool role_fits(const schema::ClauseVerdict& verdict, bool is_critical, std::string_view stage) {
  switch (verdict.role) {
    case SliceRole::corpus:
      return verdict.where.empty();
    case SliceRole::critical:
      return is_critical;
    case SliceRole::monitored:
      return !verdict.where.empty() && !is_critical;
    case SliceRole::discovered:
      // A search that was too large to be made has a verdict on no slice.
      return stage == kDiscoveringStage && !is_critical &&
             (!verdict.where.empty() || verdict.rule == schema::VerdictRule::cannot);
    case SliceRole::described:
      break;
  }
  return false;
}

}  // namespace

schema::Result<ContractTerms> ContractTerms::read(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {}, "the contract"));
  ContractTerms terms;
  bool good = parsed.is_object();
  if (good && parsed.contains("slices")) good = read_slices(parsed.at("slices"), terms);
  for (const std::string_view family : kFamilies) {
    const auto clauses = good ? parsed.find(family) : parsed.end();
    if (!good || clauses == parsed.end()) continue;
    good = clauses->is_array() && std::ranges::all_of(*clauses, [&](const json& clause) {
             return read_clause(clause, family, terms);
           });
  }
  if (!good) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "its clauses or slices do not have the form of a contract's");
  }
  return terms;
}

std::string ContractTerms::fault(const schema::ClauseVerdict& verdict, std::string_view stage) const {
  const auto clause = clauses.find(verdict.clause);
  if (clause == clauses.end()) {
    return fmt::format("body/clause {} is no clause of the contract", verdict.clause);
  }
  const bool is_critical =
      clause->second.on_critical && std::ranges::find(critical, verdict.where) != critical.end();
  if (!role_fits(verdict, is_critical, stage)) {
    return fmt::format("body/role of {} is {}, which its slice does not have under the contract",
                       verdict.clause, schema::to_string(verdict.role));
  }
  const schema::RuleSet* rules = schema::find_rules(verdict.rules);
  if (rules == nullptr) return {};  // said where the verdict is derived
  if (rules->severity(verdict, clause->second.severity, discovery) != verdict.severity) {
    return fmt::format("body/severity of {} is not what the contract gives to {} slices", verdict.clause,
                       schema::to_string(verdict.role));
  }
  return {};
}

}  // namespace driftgate::evidence
