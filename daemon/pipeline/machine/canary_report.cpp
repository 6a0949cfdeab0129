#include "daemon/pipeline/machine/canary_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/stages/report_json.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline::machine {
namespace {

using nlohmann::json;
using schema::Verdict;
using stages::CanaryAction;
using stages::CanaryDecision;

/// Whether a verdict is about traffic that goes to the fallback kernel.
bool is_set_aside(const CanaryDecision& decision, const schema::ClauseVerdict& verdict) {
  return decision.all_to_fallback ||
         std::ranges::any_of(decision.fallback_slices, [&](const schema::SliceWhere& slice) {
           return std::ranges::all_of(slice, [&](const auto& attribute) {
             const auto found = verdict.where.find(attribute.first);
             return found != verdict.where.end() && found->second == attribute.second;
           });
         });
}

/// What the stage's verdict follows from: every clause; to go on or to finish, those that the candidate is
/// still held to. What was routed away was recorded when it was.
std::vector<schema::ClauseVerdict> decisive(const CanaryDecision& decision) {
  auto verdicts = decision.verdicts;
  const bool goes_on = decision.action == CanaryAction::advance ||
                       decision.action == CanaryAction::wait_approval ||
                       decision.action == CanaryAction::finish;
  if (goes_on) std::erase_if(verdicts, [&](const auto& verdict) { return is_set_aside(decision, verdict); });
  return verdicts;
}

}  // namespace

std::string first_reason(const CanaryDecision& decision) {
  return decision.reasons.empty() ? std::string("decided by the tests") : decision.reasons.front();
}

Verdict verdict_so_far(const CanaryDecision& decision) {
  const auto together = schema::combine(decisive(decision));
  return together == Verdict::pass ? Verdict::inconclusive : together;
}

json figures(const Live& live, const StageProgress& progress, const CanaryDecision& decision) {
  json value{{"step", live.run.step},
             {"share_bp", progress.share_bp},
             {"e_value", progress.max_e_value},
             {"exposed_requests", decision.exposed_requests},
             {"exposed_keys", decision.exposed_keys},
             {"failed_requests_candidate", decision.failed_requests_candidate},
             {"failed_requests_incumbent", decision.failed_requests_incumbent},
             {"failed_keys_candidate", decision.failed_keys_candidate},
             {"split_e_value", decision.split_e_value}};
  if (decision.first_failure_us) value["first_failure_us"] = *decision.first_failure_us;
  if (!decision.escalation.clause.empty()) {
    value["clause"] = decision.escalation.clause;
    value["rule"] = decision.escalation.rule;
  }
  return value;
}

schema::EntryDraft decision_entry(const Facts& facts, const StageProgress& progress,
                                  const CanaryDecision& decision) {
  auto body = schema::EntryValue::Object{{"action", stages::to_string(decision.action)},
                                         {"reason", first_reason(decision)},
                                         {"figures", entry_value(figures(facts.live, progress, decision))}};
  if (!decision.escalation.clause.empty()) {
    body["clause"] = decision.escalation.clause;
    body["slice"] = schema::slice_text(decision.escalation.where);
    body["rule"] = decision.escalation.rule;
  }
  return draft(facts, schema::EvidenceKind::escalation_decided, {}, std::move(body));
}

StageConclusion canary_conclusion(const Facts& facts, const StageProgress& progress,
                                  const CanaryDecision& decision, Verdict verdict,
                                  const std::string& memory) {
  const auto& live = facts.live;
  StageConclusion conclusion;
  conclusion.report.stage = schema::Stage::canary;
  conclusion.report.verdict = verdict;
  conclusion.report.clauses = decisive(decision);
  conclusion.action = stages::to_string(decision.action);
  conclusion.run = progress.spent_k;
  conclusion.report.notes = decision.reasons;
  conclusion.report.alpha = live.contract->confidence.alpha_harm;
  conclusion.report.seed = live.row.seed;
  conclusion.report.code_version = facts.settings.code_version;
  auto report = json::parse(report_json(conclusion.report, nullptr, *live.contract));
  report["canary"] = figures(live, progress, decision);
  conclusion.report_json = schema::canonical_json(report);
  conclusion.inputs_digest = schema::sha256_digest(memory);
  return conclusion;
}

std::string approval_basis(const Live& live, const CanaryDecision& decision) {
  json verdicts = json::array();
  for (const auto& verdict : decision.verdicts) {
    verdicts.push_back({{"clause", verdict.clause},
                        {"slice", schema::slice_text(verdict.where)},
                        {"verdict", schema::to_string(verdict.verdict)}});
  }
  const auto next = static_cast<std::uint32_t>(live.run.step) + 1;
  return schema::canonical_json(json{{"promotion", live.row.id},
                                     {"stage", live.run.key.stage},
                                     {"attempt", live.run.key.attempt},
                                     {"step", live.run.step},
                                     {"step_started_us", live.run.step_started_us},
                                     {"next_share_bp", live.canary->share_of_step(next)},
                                     {"verdicts", std::move(verdicts)}});
}

bool approval_is_stale(const Live& live, const CanaryDecision& decision) {
  const auto& steps = live.contract->canary->steps;
  const auto step = static_cast<std::size_t>(live.run.step);
  if (decision.action != CanaryAction::advance || step >= steps.size() || !steps[step].approval) return false;
  return schema::sha256_digest(approval_basis(live, decision)) != live.progress.approval_digest;
}

}  // namespace driftgate::pipeline::machine
