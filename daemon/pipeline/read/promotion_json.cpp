#include "daemon/pipeline/read/promotion_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ranges>

#include "daemon/pipeline/read/job_views.hpp"
#include "daemon/pipeline/read/json_views.hpp"
#include "daemon/pipeline/read/shown.hpp"
#include "daemon/pipeline/read/standing.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

/// How far a job is, and where: "drift: queued at Slurm as 1234: Priority".
json job_json(const RunningJob& job) {
  const auto progress = job.progress.value_or(jobs::JobProgress{});
  const auto place = job.place ? place_text(*job.place) : std::string();
  std::string text = job.name;
  if (job.progress) text += ": " + progress.text;
  if (!place.empty()) text += (job.progress ? "; " : ": ") + place;
  return {{"done", progress.done}, {"total", progress.total}, {"unit", progress.unit},
          {"text", text},          {"job", job.id},           {"place", place_json(job.place)}};
}

/// How far a stage that runs is.
json progress_json(const RunFacts& run) {
  if (run.row.state != store::StageRunState::running) return nullptr;
  if (run.job) return job_json(*run.job);
  const auto& progress = run.progress;
  if (run.row.key.stage == schema::to_string(schema::Stage::shadow_runtime))
    return {{"done", progress.pairs}, {"total", 0}, {"unit", "pairs"}, {"text", progress.phase}};
  if (run.row.key.stage == schema::to_string(schema::Stage::canary))
    return {{"done", progress.keys_in_step},
            {"total", 0},
            {"unit", "keys"},
            {"text", fmt::format("{} at {}", progress.phase, share_text(progress.share_bp))}};
  return {{"done", 0}, {"total", 0}, {"unit", ""}, {"text", "deciding"}};
}

json counts_json(const RunFacts& run) {
  json counts{{"pass", 0}, {"violated", 0}, {"inconclusive", 0}, {"error", 0}};
  for (const auto& [verdict, count] : run.counts) counts[verdict] = count;
  return counts;
}

json run_json(const RunFacts& run) {
  const auto& row = run.row;
  const bool decided =
      row.state != store::StageRunState::running && row.state != store::StageRunState::stopped;
  const json counts = counts_json(run);
  return {{"stage", row.key.stage},
          {"attempt", row.key.attempt},
          {"state", store::to_string(row.state)},
          {"verdict", decided ? json(store::to_string(row.state)) : json(nullptr)},
          {"started_us", row.started_us},
          {"ended_us", maybe_json(row.ended_us)},
          {"counts", counts},
          {"summary", {{"verdicts", counts}}},
          {"report_digest", row.report.empty() ? json(nullptr) : json(row.report)},
          {"progress", progress_json(run)}};
}

json lines(std::string_view text) {
  json list = json::array();
  for (const auto line : std::views::split(text, '\n'))
    if (!line.empty()) list.push_back(std::string_view(line));
  return list;
}

json canary_json(const PromotionFacts& facts) {
  const auto* const run = facts.canary();
  if (run == nullptr) return nullptr;
  const auto& progress = run->progress;
  const auto* const contract = facts.contract.get();
  const std::size_t steps = contract != nullptr && contract->canary ? contract->canary->steps.size() : 0;
  const bool runs = run->row.state == store::StageRunState::running;
  return {{"step", run->row.step},
          {"steps", steps},
          {"phase", progress.phase},
          {"share_bp", progress.share_bp},
          {"frozen", progress.frozen},
          {"advance_proven", progress.advance_proven},
          {"keys", progress.keys_in_step},
          {"exposed_requests", progress.exposed_requests},
          {"exposed_keys", progress.exposed_keys},
          {"failures", progress.failed_requests_candidate},
          {"incumbent_failures", progress.failed_requests_incumbent},
          {"e_value", progress.max_e_value},
          {"waits_for", runs ? lines(progress.waits_for) : json::array()},
          {"step_started_us", run->row.step_started_us}};
}

template <typename Row>
json people_json(const std::vector<Row>& given) {
  json people = json::array();
  for (const auto& one : given)
    people.push_back({{"who", one.who}, {"given_us", one.given_us}, {"reason", one.reason}});
  return people;
}

json approval_json(const PromotionFacts& facts) {
  const auto* const run = facts.canary();
  if (run == nullptr || facts.row.state != store::PromotionState::awaiting_approval) return nullptr;
  return {{"needed", facts.quorum.needed},
          {"given", people_json(facts.approvals)},
          {"step", run->row.step},
          {"evidence_digest", run->progress.approval_digest},
          {"deadline_us", maybe_json(facts.row.deadline_us)}};
}

/// What an inconclusive promotion needs to go past its stage; null for a canary, which cannot be waived.
json waiver_json(const PromotionFacts& facts) {
  const auto* const run = facts.newest();
  const bool waivable = facts.row.state == store::PromotionState::inconclusive && facts.canary() == nullptr;
  if (run == nullptr || !waivable) return nullptr;
  json clauses = json::array();
  for (const auto& clause : facts.to_waive)
    clauses.push_back({{"clause", clause.clause}, {"given", people_json(clause.given)}});
  return {{"needed", kWaiversNeeded},
          {"evidence_digest", run->row.report},
          {"deadline_us", maybe_json(facts.row.deadline_us)},
          {"clauses", std::move(clauses)}};
}

json needs_json(const std::vector<Need>& needs) {
  json list = json::array();
  for (const auto& need : needs)
    list.push_back({{"action", need.action}, {"scope", need.scope}, {"text", need.text}});
  return list;
}

/// What is said of where it stands.
void put_standing(json& value, const PromotionFacts& facts) {
  const auto standing = standing_of(facts);
  value["why"] = standing.why;
  value["next"] = standing.next;
  value["needs"] = needs_json(standing.needs);
  value["share_bp"] = facts.share_bp;
  value["evidence_shown"] = evidence_shown(facts);
}

}  // namespace

json version_json(const std::optional<store::VersionRow>& version) {
  if (!version) return nullptr;
  return {{"version", version->id},
          {"engine", version->engine},
          {"kernel", version->kernel},
          {"url", version->base_url},
          {"checkpoint", version->checkpoint}};
}

json promotion_json(const PromotionFacts& facts) {
  const auto& row = facts.row;
  const auto* const canary = facts.canary();
  json stages = json::array();
  for (const auto& run : facts.runs) stages.push_back(run_json(run));
  json value{{"id", row.id},
             {"model", row.model},
             {"engine", row.engine},
             {"contract", row.contract},
             {"contract_name", facts.contract_name},
             {"requester", row.requester},
             {"state", store::to_string(row.state)},
             {"stage", row.stage.empty() ? json(nullptr) : json(row.stage)},
             {"attempt", row.attempt},
             {"traffic", store::to_string(row.traffic)},
             {"reason", row.reason},
             {"created_us", row.created_us},
             {"updated_us", row.updated_us},
             {"ended_us", maybe_json(row.ended_us)},
             {"deadline_us", maybe_json(row.deadline_us)},
             {"revision", row.revision},
             {"seed", row.seed},
             {"candidate", version_json(facts.candidate)},
             {"baseline", version_json(facts.baseline)},
             {"request", stored_json(row.request)},
             {"stages", std::move(stages)},
             {"canary", canary_json(facts)},
             {"approval", approval_json(facts)},
             {"waiver", waiver_json(facts)},
             {"paused", row.state == store::PromotionState::paused},
             {"frozen", canary != nullptr && canary->progress.frozen},
             {"outcome", stored_json(row.outcome)}};
  put_standing(value, facts);
  return value;
}

View promotion_item(const PromotionFacts& facts) {
  const auto seq = facts.row.evidence_seq;
  return {facts.row.id, seq < 0 ? 0 : static_cast<std::uint64_t>(seq), false,
          schema::canonical_json(promotion_json(facts))};
}

}  // namespace driftgate::pipeline
