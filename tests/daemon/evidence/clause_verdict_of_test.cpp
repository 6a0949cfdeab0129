#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/evidence/verify/derivation.hpp"
#include "schema/verdict_rule.hpp"

using namespace driftgate;
using nlohmann::json;

namespace {

/// The cases of a file below tests/vectors, each a body in the canonical form of entries;
/// scripts/verify_bundle.py is held to the same ones (tests/evidence/versions.py).
std::vector<json> cases_of(const std::string& name) {
  std::ifstream file("tests/vectors/" + name);
  std::vector<json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(json::parse(line));
  REQUIRE_MESSAGE(!cases.empty(), name);
  return cases;
}

schema::EntryValue::Object body_of(const json& one) {
  // nlohmann sorts names by byte and has no doubles here: its text is the canonical one.
  const auto value = schema::parse_canonical(one["body"].dump());
  REQUIRE_MESSAGE(value.has_value(), (value ? "" : value.error().describe()));
  return *value->object();
}

}  // namespace

TEST_CASE("of every version of the rules, each recorded verdict follows from its numbers as it always did") {
  for (const schema::RuleSet& rules : schema::rule_sets()) {
    for (const json& one : cases_of("rules_" + std::to_string(rules.version) + ".jsonl")) {
      CAPTURE(one["name"].get<std::string>());
      const auto verdict = evidence::clause_verdict_of(body_of(one));
      std::string follows = "refused";
      if (verdict) {
        const auto derived = schema::rederive(*verdict);
        if (derived) follows = schema::to_string(*derived);
      }
      CHECK(follows == one["follows"].get<std::string>());
    }
  }
}

TEST_CASE(
    "of every version of the rules, a verdict has the role and the severity that the contract gives it") {
  for (const schema::RuleSet& rules : schema::rule_sets()) {
    for (const json& one : cases_of("contract_terms_" + std::to_string(rules.version) + ".jsonl")) {
      CAPTURE(one["name"].get<std::string>());
      const auto terms = evidence::ContractTerms::read(one["contract"].get<std::string>());
      const auto verdict = evidence::clause_verdict_of(body_of(one));
      REQUIRE_MESSAGE(verdict.has_value(), (verdict ? "" : verdict.error().message));
      const bool accepted = terms && terms->fault(*verdict, one["stage"].get<std::string>()).empty();
      CHECK(accepted == one["accepted"].get<bool>());
    }
  }
}

TEST_CASE("a stage is decided by the version of the rules that its verdicts state") {
  const auto body = body_of(cases_of("rules_1.jsonl").front());
  const auto faults = [&](bool clause_states, schema::EntryValue stage_rules) {
    std::vector<std::string> found;
    evidence::PromotionDerivation derivation(
        [&](std::int64_t, const std::string& what) { found.push_back(what); });
    const auto follow = [&](std::int64_t seq, schema::EntryValue::Object entry_body) {
      derivation.follow({.seq = seq,
                         .draft = {.kind = schema::EvidenceKind::verdict_reached,
                                   .actor = "driftgate",
                                   .subject = {.stage = "canary", .attempt = 1},
                                   .body = std::move(entry_body)}});
    };
    auto clause = body;
    clause["verdict"] = "error";
    if (!clause_states) {
      clause.erase("rules");
      clause["alpha"] = 1;
      clause["threshold"] = 1;
    }
    follow(5, clause);
    schema::EntryValue::Object stage{
        {"scope", "stage"}, {"verdict", "error"}, {"ended", true}, {"first", 5}, {"count", 1}};
    if (!stage_rules.is_null()) stage["rules"] = std::move(stage_rules);
    follow(6, stage);
    return found;
  };
  CHECK(faults(true, 1).empty());
  CHECK(faults(false, nullptr).empty());
  CHECK(faults(true, nullptr).size() == 1);
  CHECK(faults(false, 1).size() == 1);
  const auto unknown = faults(true, 99);
  REQUIRE(unknown.size() == 1);
  CHECK(unknown[0].find("99") != std::string::npos);
  CHECK(faults(true, "1").size() == 1);
}
