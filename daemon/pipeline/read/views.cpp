#include "daemon/pipeline/read/views.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ranges>

#include "daemon/pipeline/people/quorum.hpp"
#include "daemon/pipeline/read/guard_view.hpp"
#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/pipeline/stages/progress.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "daemon/store/registry/routes.hpp"
#include "daemon/store/registry/versions.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/contract/contract.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

View view(std::string id, std::int64_t seq, const json& value) {
  return {std::move(id), seq < 0 ? 0 : static_cast<std::uint64_t>(seq), false, schema::canonical_json(value)};
}

json parsed(const std::string& text) {
  return text.empty() ? json(nullptr) : json::parse(text, nullptr, false);
}

template <typename T>
json maybe(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

schema::Result<json> version_json(store::Reader& reader, const std::string& id) {
  if (id.empty()) return json(nullptr);
  auto version = TRY(store::find_version(reader, id));
  if (!version) return json(nullptr);
  const auto& row = *version;
  return json{{"version", row.id},
              {"engine", row.engine},
              {"kernel", row.kernel},
              {"url", row.base_url},
              {"checkpoint", row.checkpoint}};
}

/// How far a stage's running job is.
json job_progress(store::Reader& reader, const store::StageKey& key, jobs::JobRunner& runner) {
  auto listed = store::list_jobs(reader, key);
  if (!listed) return nullptr;
  for (const auto& job : *listed) {
    if (job.state != store::JobState::running) continue;
    const auto progress = runner.progress(key.text() + "/" + job.name);
    json value{{"done", 0}, {"total", 0}, {"unit", ""}, {"text", job.name}};
    if (progress)
      value = {{"done", progress->done},
               {"total", progress->total},
               {"unit", progress->unit},
               {"text", job.name + ": " + progress->text}};
    return value;
  }
  return nullptr;
}

json stage_progress(store::Reader& reader, const store::StageRunRow& run, const StageProgress& progress,
                    jobs::JobRunner& runner) {
  if (run.state != store::StageRunState::running) return nullptr;
  auto job = job_progress(reader, run.key, runner);
  if (job.is_object()) return job;
  if (run.key.stage == schema::to_string(schema::Stage::shadow_runtime)) {
    return {{"done", progress.pairs}, {"total", 0}, {"unit", "pairs"}, {"text", progress.phase}};
  }
  if (run.key.stage == schema::to_string(schema::Stage::canary)) {
    return {{"done", progress.keys_in_step},
            {"total", 0},
            {"unit", "keys"},
            {"text", fmt::format("{} at {:.4g}%", progress.phase, progress.share_bp / 100.0)}};
  }
  return {{"done", 0}, {"total", 0}, {"unit", ""}, {"text", "deciding"}};
}

/// Counts of the stage's verdicts and the sentences of those that did not pass.
schema::Result<json> verdict_summary(store::Reader& reader, const store::StageKey& key) {
  auto rows = TRY(store::list_verdicts(reader, key));
  json counts{{"pass", 0}, {"violated", 0}, {"inconclusive", 0}, {"error", 0}};
  json open = json::array();
  constexpr std::size_t kListed = 20;
  for (const auto& row : rows) {
    counts[row.verdict] = counts[row.verdict].get<int>() + 1;
    if (row.verdict == "pass" || open.size() >= kListed) continue;
    const auto detail = parsed(row.detail);
    open.push_back({{"clause", row.clause},
                    {"slice", row.slice},
                    {"verdict", row.verdict},
                    {"evidence", row.evidence_seq},
                    {"severity", detail.is_object() ? detail.value("severity", "") : ""},
                    {"message", detail.is_object() ? detail.value("message", "") : ""}});
  }
  return json{{"verdicts", std::move(counts)}, {"open", std::move(open)}};
}

schema::Result<json> stage_json(store::Reader& reader, const store::StageRunRow& run,
                                jobs::JobRunner& runner) {
  auto summary = TRY(verdict_summary(reader, run.key));
  const auto progress = progress_from_json(run.progress);
  const bool decided =
      run.state != store::StageRunState::running && run.state != store::StageRunState::stopped;
  return json{{"stage", run.key.stage},
              {"attempt", run.key.attempt},
              {"state", store::to_string(run.state)},
              {"verdict", decided ? json(store::to_string(run.state)) : json(nullptr)},
              {"started_us", run.started_us},
              {"ended_us", maybe(run.ended_us)},
              {"summary", std::move(summary)},
              {"report_digest", run.report.empty() ? json(nullptr) : json(run.report)},
              {"progress", stage_progress(reader, run, progress, runner)}};
}

json lines(std::string_view text) {
  json list = json::array();
  for (const auto line : std::views::split(text, '\n'))
    if (!line.empty()) list.push_back(std::string_view(line));
  return list;
}

json canary_json(const store::StageRunRow& run, const StageProgress& progress,
                 const schema::Contract* contract) {
  const std::size_t steps = contract != nullptr && contract->canary ? contract->canary->steps.size() : 0;
  return {
      {"step", run.step},
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
      {"waits_for", run.state == store::StageRunState::running ? lines(progress.waits_for) : json::array()},
      {"step_started_us", run.step_started_us}};
}

template <typename Row>
json people_json(const std::vector<Row>& given) {
  json people = json::array();
  for (const auto& one : given)
    people.push_back({{"who", one.who}, {"given_us", one.given_us}, {"reason", one.reason}});
  return people;
}

schema::Result<json> approval_json(store::Reader& reader, const store::PromotionRow& row,
                                   const store::StageRunRow& run, const std::string& digest,
                                   const schema::Contract* contract, std::int64_t now_us) {
  const auto quorum = contract != nullptr ? quorum_of(*contract, run.step) : Quorum{};
  auto all = TRY(store::list_approvals(reader, row.id));
  return json{{"needed", quorum.needed},
              {"given", people_json(counted_approvals(all, run, digest, quorum, now_us))},
              {"step", run.step},
              {"evidence_digest", digest},
              {"deadline_us", maybe(row.deadline_us)}};
}

/// What an inconclusive promotion needs to go past its stage; null for a canary, which cannot be waived.
schema::Result<json> waiver_json(store::Reader& reader, const store::PromotionRow& row,
                                 const store::StageRunRow& run) {
  const bool waivable = row.state == store::PromotionState::inconclusive &&
                        run.key.stage != schema::to_string(schema::Stage::canary);
  if (!waivable) return json(nullptr);
  auto open = TRY(open_clauses(reader, run));
  json clauses = json::array();
  for (const auto& clause : open)
    clauses.push_back({{"clause", clause.clause}, {"given", people_json(clause.given)}});
  return json{{"needed", kWaiversNeeded},
              {"evidence_digest", run.report},
              {"deadline_us", maybe(row.deadline_us)},
              {"clauses", std::move(clauses)}};
}

/// What is shown of a promotion's stage runs.
struct Runs {
  json stages = json::array(), canary = nullptr, approval = nullptr, waiver = nullptr;
  bool frozen = false;
};

schema::Result<Runs> runs_json(store::Reader& reader, const store::PromotionRow& row,
                               const std::optional<store::ContractRow>& stored, jobs::JobRunner& runner,
                               std::int64_t now_us) {
  auto runs = TRY(store::list_stage_runs(reader, row.id));
  Runs shown;
  for (const auto& run : runs) {
    auto stage = TRY(stage_json(reader, run, runner));
    shown.stages.push_back(std::move(stage));
  }
  if (runs.empty()) return shown;
  const auto& newest = runs.back();
  if (newest.key.stage == schema::to_string(schema::Stage::canary)) {
    schema::Result<std::shared_ptr<const schema::Contract>> terms;
    if (stored) terms = parse_contract_row(*stored);
    const auto* const contract = terms ? terms->get() : nullptr;
    const auto progress = progress_from_json(newest.progress);
    shown.canary = canary_json(newest, progress, contract);
    shown.frozen = progress.frozen;
    if (row.state == store::PromotionState::awaiting_approval) {
      auto waiting = TRY(approval_json(reader, row, newest, progress.approval_digest, contract, now_us));
      shown.approval = std::move(waiting);
    }
  }
  auto waiver = TRY(waiver_json(reader, row, newest));
  shown.waiver = std::move(waiver);
  return shown;
}

}  // namespace

View contract_view(const store::ContractRow& row) {
  return view(row.digest, row.evidence_seq,
              {{"digest", row.digest},
               {"name", row.name},
               {"registrant", row.registrant},
               {"registered_us", row.registered_us},
               {"document", parsed(row.canonical)}});
}

View kernel_view(const store::KernelRow& row) {
  return view(row.name, row.evidence_seq,
              {{"name", row.name},
               {"digest", row.digest},
               {"registrant", row.registrant},
               {"registered_us", row.registered_us},
               {"document", parsed(row.canonical)}});
}

View engine_view(const store::EngineRow& row, const store::EngineAccessRow& access) {
  const auto or_null = [](const std::string& text) { return text.empty() ? json(nullptr) : json(text); };
  return view(row.name, row.evidence_seq,
              {{"name", row.name},
               {"url", row.base_url},
               {"kernel", row.kernel},
               {"checkpoint", row.checkpoint},
               {"checkpoint_uri", row.checkpoint_uri},
               {"abilities", parsed(row.abilities)},
               {"max_requests_per_second",
                row.max_requests_per_second == 0 ? json(nullptr) : json(row.max_requests_per_second)},
               {"key_file", or_null(access.key_file)},
               {"key_header", or_null(access.key_header)},
               {"ca_file", or_null(access.ca_file)},
               {"ca_digest", or_null(access.ca_digest)},
               {"probed_us", row.probed_us},
               {"registered_us", row.registered_us}});
}

schema::Result<View> stored_engine_view(store::Reader& reader, const store::EngineRow& row) {
  const auto access = TRY(store::find_engine_access(reader, row.base_url));
  return engine_view(row, access.value_or(store::EngineAccessRow{}));
}

schema::Result<View> named_engine_view(store::Reader& reader, const std::string& name) {
  const auto row = TRY(store::find_engine(reader, name));
  if (row) return stored_engine_view(reader, *row);
  return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no engine {}", name));
}

View block_view(const store::BlockRow& row) {
  json lifted = nullptr;
  if (row.lifted_us)
    lifted = {{"by", row.lifted_by}, {"reason", row.lift_reason}, {"since_us", *row.lifted_us}};
  return view(row.id, row.evidence_seq,
              {{"id", row.id},
               {"checkpoint", row.checkpoint},
               {"kernel", row.kernel},
               {"contract", row.contract},
               {"promotion", row.promotion},
               {"reason", row.reason},
               {"by", row.set_by},
               {"since_us", row.set_us},
               {"lifted", lifted}});
}

schema::Result<View> model_view(store::Reader& reader, const store::ModelRow& row) {
  auto incumbent = TRY(version_json(reader, row.incumbent));
  auto desired = TRY(store::find_desired_route(reader, row.name));
  auto applied = TRY(store::find_applied_route(reader, row.name));
  auto newest = TRY(store::list_promotions(
      reader, {.model = row.name, .state = std::nullopt, .before = std::nullopt, .limit = 20}));
  json promotion = nullptr;
  for (const auto& item : newest) {
    if (store::holds_model(item.state)) promotion = item.id;
  }
  json hold = nullptr;
  if (row.hold)
    hold = {{"reason", *row.hold},
            {"by", row.held_by},
            {"since_us", row.hold_us},
            {"promotion", row.hold_promotion}};
  auto guard = TRY(guard_json(reader, row.name));
  const json wanted = desired ? parsed(desired->route) : json(nullptr);
  const json held = applied ? parsed(applied->route) : json(nullptr);
  json seen = nullptr;
  if (held.is_object()) {
    seen = {{"route", held}, {"candidate_bp", held.value("candidate_bp", 0)}, {"time_us", applied->time_us}};
  }
  return view(row.name, row.evidence_seq,
              {{"name", row.name},
               {"incumbent", incumbent},
               {"promotion", promotion},
               {"hold", hold},
               {"guard", std::move(guard)},
               {"epoch", row.epoch},
               {"revision", row.revision},
               {"created_us", row.created_us},
               {"updated_us", row.updated_us},
               {"route", {{"desired", wanted}, {"observed", seen}, {"agree", desired && wanted == held}}}});
}

schema::Result<View> named_model_view(store::Reader& reader, const std::string& name) {
  const auto row = TRY(store::get_model(reader, name));
  return model_view(reader, row);
}

schema::Result<View> promotion_view(store::Reader& reader, const store::PromotionRow& row,
                                    jobs::JobRunner& runner, std::int64_t now_us) {
  auto candidate = version_json(reader, row.candidate);
  auto baseline = TRY(candidate ? version_json(reader, row.baseline) : candidate);
  auto contract = TRY(store::find_contract(reader, row.contract));
  auto runs = TRY(runs_json(reader, row, contract, runner, now_us));
  return view(row.id, row.evidence_seq,
              {{"id", row.id},
               {"model", row.model},
               {"engine", row.engine},
               {"contract", row.contract},
               {"contract_name", contract ? contract->name : std::string()},
               {"requester", row.requester},
               {"state", store::to_string(row.state)},
               {"stage", row.stage.empty() ? json(nullptr) : json(row.stage)},
               {"attempt", row.attempt},
               {"traffic", store::to_string(row.traffic)},
               {"reason", row.reason},
               {"created_us", row.created_us},
               {"updated_us", row.updated_us},
               {"ended_us", maybe(row.ended_us)},
               {"deadline_us", maybe(row.deadline_us)},
               {"revision", row.revision},
               {"seed", row.seed},
               {"candidate", *candidate},
               {"baseline", baseline},
               {"request", parsed(row.request)},
               {"stages", std::move(runs.stages)},
               {"canary", runs.canary},
               {"approval", runs.approval},
               {"waiver", runs.waiver},
               {"paused", row.state == store::PromotionState::paused},
               {"frozen", runs.frozen},
               {"outcome", parsed(row.outcome)}});
}

schema::Result<void> note_made(store::Tx& tx, const schema::Result<View>& view) {
  if (!view) return std::unexpected(view.error());
  return store::note_made(tx, {.id = view->id, .json = view->json});
}

schema::Result<View> report_view(store::Reader& reader, const std::string& promotion,
                                 const std::string& stage) {
  auto row = TRY(store::get_promotion(reader, promotion));
  auto runs = TRY(store::list_stage_runs(reader, promotion));
  const store::StageRunRow* newest = nullptr;
  for (const auto& run : runs) {
    if (run.key.stage == stage && !run.report.empty()) newest = &run;
  }
  if (newest == nullptr) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("promotion {} has no report of stage {} yet", promotion, stage));
  }
  auto blob = TRY(store::find_blob(reader, newest->report));
  if (!blob)
    return schema::fail(ErrorCode::corrupt, fmt::format("the report {} is not stored", newest->report));
  return View{newest->key.text(), static_cast<std::uint64_t>(std::max<std::int64_t>(row.evidence_seq, 0)),
              false, blob->bytes};
}

}  // namespace driftgate::pipeline
