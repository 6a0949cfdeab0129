#include "daemon/evidence/bundle/statements.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::Verdict;

namespace {

constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
constexpr std::string_view kTestResult = "https://in-toto.io/attestation/test-result/v0.1";
constexpr std::string_view kSummary = "https://slsa.dev/verification_summary/v1";
constexpr std::string_view kDigestPrefix = "sha256:";

json digest_set(std::string_view digest) {
  if (digest.starts_with(kDigestPrefix)) digest.remove_prefix(kDigestPrefix.size());
  return {{"sha256", digest}};
}

json statement(const PromotionDerivation& promotion, std::string_view type, json predicate) {
  const auto& subject = promotion.subject();
  return {{"_type", kStatementType},
          {"subject", json::array({{{"name", subject.model.value_or("")},
                                    {"digest", digest_set(subject.checkpoint.value_or(""))}}})},
          {"predicateType", type},
          {"predicate", std::move(predicate)}};
}

std::string stage_uri(const PromotionDerivation& promotion, const StageDecision& decision) {
  return fmt::format("urn:driftgate:promotion:{}/{}/{}", promotion.subject().promotion.value_or(""),
                     decision.stage, decision.attempt);
}

std::string_view result_of(Verdict verdict) {
  if (verdict == Verdict::pass) return "PASSED";
  return verdict == Verdict::inconclusive ? "WARNED" : "FAILED";
}

json test_result(const PromotionDerivation& promotion, const StageDecision& decision,
                 std::string_view origin) {
  json passed = json::array();
  json warned = json::array();
  json failed = json::array();
  for (const auto& clause : decision.clauses) {
    const std::string slice = schema::slice_text(clause.where);
    const std::string name = slice.empty() ? clause.clause : fmt::format("{}[{}]", clause.clause, slice);
    const bool hard =
        clause.severity == schema::Severity::hard && clause.role != schema::SliceRole::described;
    if (clause.verdict == Verdict::pass) {
      passed.push_back(name);
    } else if (hard && clause.verdict != Verdict::inconclusive) {
      failed.push_back(name);
    } else {
      warned.push_back(name);
    }
  }
  json configuration = json::array(
      {{{"name", "contract"}, {"digest", digest_set(promotion.subject().contract.value_or(""))}},
       {{"name", "entry"}, {"uri", fmt::format("urn:driftgate:log:{}#{}", origin, decision.seq)}}});
  if (!decision.inputs_digest.empty())
    configuration.push_back({{"name", "measurement"}, {"digest", digest_set(decision.inputs_digest)}});
  if (!decision.report_digest.empty())
    configuration.push_back({{"name", "report"}, {"digest", digest_set(decision.report_digest)}});
  return statement(promotion, kTestResult,
                   {{"result", result_of(decision.verdict)},
                    {"configuration", std::move(configuration)},
                    {"url", stage_uri(promotion, decision)},
                    {"passedTests", std::move(passed)},
                    {"warnedTests", std::move(warned)},
                    {"failedTests", std::move(failed)}});
}

std::string level_name(std::string_view stage) {
  std::string name = "DRIFTGATE_";
  for (const char c : stage) name += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
  return name;
}

std::string rfc3339(std::int64_t time_us) {
  const std::chrono::sys_seconds seconds{std::chrono::seconds(time_us / 1'000'000)};
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds.time_since_epoch().count()));
}

json summary(const PromotionDerivation& promotion, const std::vector<std::string>& results,
             std::string_view origin) {
  json inputs = json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    inputs.push_back({{"uri", stage_uri(promotion, promotion.decisions()[i])},
                      {"digest", digest_set(schema::sha256_digest(results[i]))}});
  }
  const bool passed = promotion.state() == "succeeded" && promotion.traffic() != "reverted";
  json levels = json::array();
  for (const std::string_view stage : {"offline-numeric", "statistical-slice", "shadow-runtime", "canary"}) {
    if (passed) levels.push_back(level_name(stage));
  }
  if (!passed) levels.push_back("FAILED");
  return statement(
      promotion, kSummary,
      {{"verifier", {{"id", fmt::format("urn:driftgate:log:{}", origin)}}},
       {"timeVerified", rfc3339(promotion.ended_us())},
       {"resourceUri", fmt::format("urn:driftgate:model:{}", promotion.subject().model.value_or(""))},
       {"policy",
        {{"uri", "urn:driftgate:contract"},
         {"digest", digest_set(promotion.subject().contract.value_or(""))}}},
       {"inputAttestations", std::move(inputs)},
       {"verificationResult", passed ? "PASSED" : "FAILED"},
       {"verifiedLevels", std::move(levels)}});
}

}  // namespace

std::vector<std::string> statements_of(const PromotionDerivation& promotion, std::string_view origin) {
  std::vector<std::string> statements;
  for (const StageDecision& decision : promotion.decisions()) {
    statements.push_back(schema::canonical_json(test_result(promotion, decision, origin)));
  }
  if (promotion.has_ended()) {
    statements.push_back(schema::canonical_json(summary(promotion, statements, origin)));
  }
  return statements;
}

}  // namespace driftgate::evidence
