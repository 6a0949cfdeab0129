#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/base/read_file.hpp"
#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/pipeline/stages/report_json.hpp"
#include "daemon/pipeline/stages/rescoring.hpp"
#include "daemon/pipeline/stages/step.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "stages/shadow_needs.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

/// Files of the rescore job, checked against the digests that it stated.
schema::Result<std::string> read_checked(const jobs::JobResult& result, const std::string& folder,
                                         const char* name) {
  const auto file = result.files.find(name);
  if (file == result.files.end()) return std::string();
  auto bytes = TRY(base::read_file(folder + "/" + file->second));
  if (schema::sha256_digest(bytes) == result.digests.at(name)) return bytes;
  return schema::fail(ErrorCode::corrupt,
                      fmt::format("{} of the rescore job does not match its digest", name));
}

/// Adds to the report what was decided on beside the table, so that it can be decided again.
std::string with_inputs(const std::string& report, const stages::ShadowInputs& inputs,
                        const std::string& pairs_digest) {
  auto value = nlohmann::json::parse(report);
  value["pairs_digest"] = pairs_digest;
  value["shadow"] = {{"reference", inputs.reference == stages::Reference::train ? "train" : "incumbent"},
                     {"logprobs_wanted", inputs.logprobs_wanted},
                     {"telemetry_age_ms", inputs.telemetry_age_ms},
                     {"mirror_skipped", inputs.mirror_skipped},
                     {"can_rescore", inputs.can_rescore},
                     {"no_logprobs", inputs.no_logprobs}};
  return schema::canonical_json(value);
}

/// What the rescore job left, read and checked.
struct Rescored {
  stages::ShadowInputs inputs;
  std::string pairs, table;  ///< bytes
  std::vector<std::string> notes;
};

schema::Result<Rescored> read_rescored(stages::ShadowInputs inputs, const jobs::JobResult& result,
                                       const std::string& folder) {
  auto pairs = TRY(read_checked(result, folder, "pairs"));
  auto table = TRY(read_checked(result, folder, "table"));
  auto parsed = TRY(jobs::pairs_from_jsonl(pairs));
  inputs.pairs = std::move(parsed);
  std::ranges::sort(inputs.pairs, {}, &stages::ShadowPair::order);
  if (!table.empty()) {
    auto realised = TRY(gpu::deserialise(table));
    inputs.realised = std::move(realised);
  }
  const auto summary = nlohmann::json::parse(result.summary);
  inputs.logprobs_wanted = summary.value("wanted", std::uint64_t{0});
  inputs.can_rescore = summary.value("can_rescore", true);
  inputs.no_logprobs = summary.value("no_logprobs", "");
  return Rescored{std::move(inputs), std::move(pairs), std::move(table),
                  summary.value("notes", std::vector<std::string>{})};
}

StageConclusion evaluate(const schema::Contract& contract, const Rescored& rescored, std::uint32_t k) {
  auto inputs = rescored.inputs;
  inputs.stage.attempt = k;
  StageConclusion conclusion;
  conclusion.report = stages::evaluate_shadow_runtime(contract, inputs);
  for (const auto& note : rescored.notes) conclusion.report.notes.push_back(note);
  conclusion.inputs_digest = schema::sha256_digest(rescored.pairs);
  conclusion.report_json =
      with_inputs(report_json(conclusion.report, inputs.realised ? &*inputs.realised : nullptr, contract),
                  inputs, conclusion.inputs_digest);
  conclusion.pairs = rescored.pairs;
  conclusion.table = rescored.table;
  conclusion.run = k;
  return conclusion;
}

/// The data plane copies requests to the candidate.
Change start_mirroring(const Facts& facts) {
  const auto& live = facts.live;
  Change change{.name = "start shadow", .progress = live.progress, .run = live.run};
  change.progress->phase = "applying";
  auto route = machine::next_route(*facts.model);
  route.stage_key = live.run.key.text();
  route.seed = live.row.seed;
  route.candidate = machine::arm(live.candidate);
  route.candidate_bp = 0;
  route.mirror_bp = live.contract->shadow.mirror_bp;
  route.mirror_token_budget = live.contract->shadow.mirror_token_budget;
  machine::set_route(change, std::move(route), "mirror requests to the candidate");
  return change;
}

Change stop_mirroring(const Facts& facts) {
  const auto& live = facts.live;
  Change change{.name = "stop mirroring", .progress = live.progress, .run = live.run};
  change.progress->phase = "stopping";
  const auto newest = std::max(live.progress.last_window_us, live.run.step_started_us);
  change.progress->telemetry_age_ms = std::max<std::int64_t>(0, (facts.now_us - newest) / 1'000);
  auto route = machine::next_route(*facts.model);
  route.mirror_bp = 0;
  machine::set_route(change, std::move(route), "the shadow stage has reached its planned end");
  return change;
}

/// Whether each clause has as many pairs as it could pass with, at the α that will be spent.
bool has_needed_pairs(Context& context, const Live& live) {
  const auto k = context.next_run(live);
  if (!k) return false;
  const auto needs = stages::shadow_needs(*live.contract, *k);
  if (live.tally) return live.tally->enough(needs, live.progress.pairs);
  return ShadowTally(live.progress.shadow_keys).enough(needs, live.progress.pairs);
}

/// The planned end: min_duration, the pairs wanted and the keys that every clause needs, or max_duration.
/// Nothing is decided before it, and no outcome moves it.
StageStep at_planned_end(Context& context, const Live& live) {
  const auto lasted_ms = (context.now() - live.run.step_started_us) / 1'000;
  const auto& plan = live.contract->shadow;
  const bool enough =
      lasted_ms >= plan.min_duration_ms &&
      live.progress.pairs >= std::max<std::uint64_t>(1, stages::pairs_asked_for(*live.contract)) &&
      has_needed_pairs(context, live);
  if (!enough && lasted_ms < plan.max_duration_ms) return Wait{};
  return stop_mirroring(context.facts(live));
}

StageStep decide_on(Context& context, const Live& live, const jobs::JobResult& rescored,
                    const std::string& folder) {
  stages::ShadowInputs inputs;
  inputs.stage = {
      .alpha = std::nullopt, .seed = live.row.seed, .code_version = context.world.settings.code_version};
  const bool against_train = live.baseline.kernel == live.contract->train_kernel;
  inputs.reference = against_train ? stages::Reference::train : stages::Reference::incumbent;
  inputs.telemetry_age_ms = live.progress.telemetry_age_ms;
  inputs.mirror_skipped = live.progress.mirror_skipped;
  auto prepare = [inputs, rescored, contract = live.contract, folder]() -> schema::Result<Tests> {
    auto read = TRY(read_rescored(inputs, rescored, folder));
    return [data = std::make_shared<const Rescored>(std::move(read)), contract](std::uint32_t k) {
      return evaluate(*contract, *data, k);
    };
  };
  return Change{.effects = {Evaluate{live.run.key, "the shadow evaluation",
                                     schema::sha256_digest(live.run.key.text()), std::move(prepare)}}};
}

/// Teacher forcing of the pairs on both engines, in a job.
StageStep rescore(Context& context, const Live& live) {
  auto spool = context.world.driver.spool_path(live.run.key.text());
  // Mirrored requests are still in flight: the slowest answers belong to the evidence too.
  if (!spool && spool.error().code == ErrorCode::conflict) return Retry{spool.error()};
  if (!spool && spool.error().code != ErrorCode::not_found)
    return AttemptFailed{spool.error(), "the spool of mirrored requests"};
  auto payload = rescore_payload(context, live, spool ? *spool : std::string());
  if (!payload) return AttemptFailed{payload.error(), "the engines' abilities"};
  auto job = look_at_job(context, live, "rescore", jobs::JobKind::rescore,
                         context.world.settings.rescore_limits, jobs::to_json(*payload));
  if (!job) return Retry{job.error()};
  if (!job->result) {
    Change change;
    dispatch(change, *job, {});
    return change;
  }
  if (!job->result->ok)
    return AttemptFailed{job->result->error.value_or(schema::Error{}), "rescoring the mirrored requests"};
  return decide_on(context, live, *job->result, job->row.dir);
}

}  // namespace

StageStep shadow_step(Context& context, const Live& live) {
  if (live.evaluating) return Wait{};
  const auto& phase = live.progress.phase;
  if (phase == "rescoring") return rescore(context, live);
  if (phase == "mirroring")
    return live.row.state == store::PromotionState::running ? at_planned_end(context, live) : Wait{};
  if (phase.empty()) return start_mirroring(context.facts(live));
  return Change{.effects = {ApplyRoute{live.row.model}}};
}

}  // namespace driftgate::pipeline
