#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "daemon/jobs/engine_client.hpp"
#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/stages/report_json.hpp"
#include "daemon/pipeline/stages/spending_key.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

/// Pairs that the O clauses ask for: the stage lasts until they are there or max_duration.
std::uint64_t wanted_pairs(const schema::Contract& contract) {
  std::uint64_t wanted = 1;
  for (const auto& clause : contract.clauses) {
    const auto* signal = std::get_if<schema::SignalSubject>(&clause.subject);
    if (signal == nullptr || signal->signal != schema::Metric::shadow_pairs || !clause.limits.min_count)
      continue;
    wanted = std::max(wanted, *clause.limits.min_count);
  }
  return wanted;
}

constexpr std::uint32_t kBatchPrompts = 256;

/// Prompts to ask alone and in a batch: none unless a clause of this stage is about it.
std::uint32_t batch_prompts(const schema::Contract& contract) {
  const bool wanted = std::ranges::any_of(contract.clauses, [](const schema::Clause& clause) {
    const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
    return subject != nullptr && subject->metric == schema::Metric::batch_variant_rate &&
           (clause.stages & schema::stage_bit(schema::Stage::shadow_runtime)) != 0;
  });
  return wanted ? kBatchPrompts : 0;
}

schema::Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return schema::fail(ErrorCode::io, fmt::format("cannot open {}", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Files of the rescore job, checked against the digests that it stated.
schema::Result<std::string> read_checked(const jobs::JobResult& result, const std::string& folder,
                                         const char* name) {
  const auto file = result.files.find(name);
  if (file == result.files.end()) return std::string();
  auto bytes = read_file(folder + "/" + file->second);
  if (bytes && schema::sha256_digest(*bytes) != result.digests.at(name)) {
    return schema::fail(ErrorCode::corrupt, fmt::format("{} of the rescore job is not what it wrote", name));
  }
  return bytes;
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
                     {"can_rescore", inputs.can_rescore}};
  return schema::canonical_json(value);
}

struct Evaluated {
  StageConclusion conclusion;
  std::optional<schema::Error> error;
};

Evaluated evaluate(const schema::Contract& contract, stages::ShadowInputs inputs,
                   const std::optional<jobs::JobResult>& result, const std::string& folder) {
  Evaluated done;
  std::string table;
  if (result) {
    auto pairs = read_checked(*result, folder, "pairs");
    auto bytes = pairs ? read_checked(*result, folder, "table") : pairs;
    if (!bytes) return {.conclusion = {}, .error = bytes.error()};
    auto parsed = jobs::pairs_from_jsonl(*pairs);
    if (!parsed) return {.conclusion = {}, .error = parsed.error()};
    inputs.pairs = std::move(*parsed);
    std::ranges::sort(inputs.pairs, {}, &stages::ShadowPair::order);
    if (!bytes->empty()) {
      auto realised = gpu::deserialise(*bytes);
      if (!realised) return {.conclusion = {}, .error = realised.error()};
      inputs.realised = std::move(*realised);
    }
    const auto summary = nlohmann::json::parse(result->summary);
    inputs.logprobs_wanted = summary.value("wanted", std::uint64_t{0});
    inputs.can_rescore = summary.value("can_rescore", true);
    done.conclusion.pairs = std::move(*pairs);
    table = std::move(*bytes);
    done.conclusion.report = stages::evaluate_shadow_runtime(contract, inputs);
    for (const auto& note : summary.value("notes", std::vector<std::string>{}))
      done.conclusion.report.notes.push_back(note);
  } else {
    done.conclusion.report = stages::evaluate_shadow_runtime(contract, inputs);
  }
  done.conclusion.report_json =
      report_json(done.conclusion.report, inputs.realised ? &*inputs.realised : nullptr, contract);
  done.conclusion.inputs_digest = schema::sha256_digest(done.conclusion.pairs);
  done.conclusion.report_json =
      with_inputs(done.conclusion.report_json, inputs, done.conclusion.inputs_digest);
  done.conclusion.table = std::move(table);
  done.conclusion.run = inputs.stage.attempt;
  return done;
}

}  // namespace

/// Continues the stage from its phase: applying → mirroring → stopping → rescoring.
void Core::run_shadow(Live& live) {
  if (live.evaluating) return;
  if (live.progress.phase == "rescoring") return rescore(live);
  if (live.progress.phase == "mirroring") return check_shadow_end(live);
  if (live.progress.phase == "applying" || live.progress.phase == "stopping")
    return ensure_route(live.row.model);
  auto& model = models_.at(live.row.model);
  auto route = next_route(model);
  route.stage_key = live.run.key.text();
  route.seed = live.row.seed;
  route.candidate = arm(live.candidate);
  route.candidate_bp = 0;
  route.mirror_bp = live.contract->shadow.mirror_bp;
  route.mirror_token_budget = live.contract->shadow.mirror_token_budget;
  auto run = live.run;
  auto progress = live.progress;
  progress.phase = "applying";
  live.tally.reset();
  run.progress = to_json(progress);
  auto done = commit("start shadow", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto updated = store::update_stage_run(tx, run);
    if (!updated) return updated;
    return put_route(tx, entries, subject_of(live.row, live.candidate.checkpoint, &run.key), route,
                     "mirror requests to the candidate");
  });
  if (!done) return stumble(live, done.error());
  live.run = run;
  live.progress = progress;
  model.desired = route;
  model.agreed = false;
  model.retry_at_us = 0;
  ensure_route(live.row.model);
}

void Core::shadow_window(const Live& live, StageProgress& progress, ShadowTally& tally,
                         const route::Window& window) const {
  tally.add(window, live.contract->slices.critical);
  progress.shadow_keys = tally.text();
  progress.pairs += window.mirrored;
  progress.mirror_failed += window.mirror_failed;
  progress.mirror_skipped += window.mirror_skipped;
  progress.last_window_us = now();
}

/// The planned end: min_duration, the pairs wanted and the keys that every clause needs at the α that will be
/// spent, or max_duration. Nothing is decided before it, and no outcome moves it.
void Core::check_shadow_end(Live& live) {
  if (live.progress.phase != "mirroring" || live.row.state != store::PromotionState::running) return;
  const auto lasted_ms = (now() - live.run.step_started_us) / 1'000;
  const auto& plan = live.contract->shadow;
  const bool enough = lasted_ms >= plan.min_duration_ms &&
                      live.progress.pairs >= wanted_pairs(*live.contract) && has_needed_pairs(live);
  if (!enough && lasted_ms < plan.max_duration_ms) return;
  stop_mirroring(live);
}

/// Whether each clause has as many pairs as it could pass with.
bool Core::has_needed_pairs(const Live& live) const {
  auto key = spending_key(world_.store, live.candidate, live.row.contract, live.run.key.stage);
  if (!key) return false;
  const auto runs =
      world_.store.read([&](store::Reader& reader) { return store::runs_spent(reader, *key); });
  if (!runs) return false;
  const auto needs = stages::shadow_needs(*live.contract, static_cast<std::uint32_t>(*runs) + 1);
  if (live.tally) return live.tally->enough(needs, live.progress.pairs);
  return ShadowTally(live.progress.shadow_keys).enough(needs, live.progress.pairs);
}

void Core::stop_mirroring(Live& live) {
  auto& model = models_.at(live.row.model);
  auto route = next_route(model);
  route.mirror_bp = 0;
  auto run = live.run;
  auto progress = live.progress;
  progress.phase = "stopping";
  const auto newest = std::max(progress.last_window_us, run.step_started_us);
  progress.telemetry_age_ms = std::max<std::int64_t>(0, (now() - newest) / 1'000);
  run.progress = to_json(progress);
  auto done = commit("stop mirroring", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto updated = store::update_stage_run(tx, run);
    if (!updated) return updated;
    return put_route(tx, entries, subject_of(live.row, live.candidate.checkpoint, &run.key), route,
                     "the shadow stage has reached its planned end");
  });
  if (!done) return stumble(live, done.error());
  live.run = run;
  live.progress = progress;
  model.desired = route;
  model.agreed = false;
  model.retry_at_us = 0;
  ensure_route(live.row.model);
}

/// Both engines as the rescore job asks them, and the spool that it reads.
schema::Result<jobs::RescorePayload> Core::rescore_payload(const Live& live, const std::string& spool) const {
  const auto side = [&](const store::VersionRow& version) -> schema::Result<jobs::RescorePayload::Side> {
    auto engine =
        world_.store.read([&](store::Reader& reader) { return store::find_engine(reader, version.engine); });
    if (!engine) return std::unexpected(engine.error());
    if (!*engine)
      return schema::fail(ErrorCode::corrupt, fmt::format("engine {} is not stored", version.engine));
    auto abilities = jobs::abilities_from_json((*engine)->abilities);
    if (!abilities) return std::unexpected(abilities.error());
    return jobs::RescorePayload::Side{version.base_url,
                                      abilities->models.empty() ? live.row.model : abilities->models.front(),
                                      version.kernel, abilities->echo_rescoring, abilities->token_ids};
  };
  auto incumbent = side(live.baseline);
  auto candidate = incumbent ? side(live.candidate) : incumbent;
  if (!candidate) return std::unexpected(candidate.error());
  // In a canary the candidate serves users: it is asked for nothing that no clause there is decided on.
  const bool shadow = live.run.key.stage == schema::to_string(schema::Stage::shadow_runtime);
  return jobs::RescorePayload{.spool = spool,
                              .incumbent = *incumbent,
                              .candidate = *candidate,
                              .checkpoint = live.candidate.checkpoint,
                              .contract = live.contract->canonical_json,
                              .max_rescored = world_.settings.max_rescored,
                              .batch_prompts = shadow ? batch_prompts(*live.contract) : 0,
                              .seed = live.row.seed,
                              .outgoing = world_.settings.outgoing};
}

/// Teacher forcing of the pairs on both engines, in a job.
void Core::rescore(Live& live) {
  auto spool = world_.driver.spool_path(live.run.key.text());
  // Mirrored requests are still in flight: the slowest answers belong to the evidence too.
  if (!spool && spool.error().code == ErrorCode::conflict) return stumble(live, spool.error());
  if (!spool && spool.error().code != ErrorCode::not_found)
    return fail_stage(live, spool.error(), "the spool of mirrored requests");
  auto payload = rescore_payload(live, spool ? *spool : std::string());
  if (!payload) return fail_stage(live, payload.error(), "the engines' abilities");
  auto done = ensure_job(live, "rescore", jobs::JobKind::rescore, world_.settings.rescore_limits,
                         jobs::to_json(*payload));
  if (!done) return stumble(live, done.error());
  if (!*done) return;
  if (!(*done)->ok)
    return fail_stage(live, (*done)->error.value_or(schema::Error{}), "rescoring the mirrored requests");
  evaluate_shadow(live, *done);
}

void Core::evaluate_shadow(Live& live, const std::optional<jobs::JobResult>& rescored) {
  auto key = spending_key(world_.store, live.candidate, live.row.contract, live.run.key.stage);
  if (!key) return stumble(live, key.error());
  std::uint32_t k = 1;
  auto spent = commit("spend alpha", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto found = store::spend(tx, *key, schema::sha256_digest(live.run.key.text()), live.run.key, now());
    if (!found) return std::unexpected(found.error());
    k = static_cast<std::uint32_t>(found->row.k);
    return {};
  });
  if (!spent) return stumble(live, spent.error());
  stages::ShadowInputs inputs;
  inputs.stage = {.attempt = k,
                  .alpha = std::nullopt,
                  .seed = live.row.seed,
                  .code_version = world_.settings.code_version};
  const bool against_train = live.baseline.kernel == live.contract->train_kernel;
  inputs.reference = against_train ? stages::Reference::train : stages::Reference::incumbent;
  inputs.telemetry_age_ms = live.progress.telemetry_age_ms;
  inputs.mirror_skipped = live.progress.mirror_skipped;
  auto result = std::make_shared<Evaluated>();
  live.evaluating = true;
  world_.offload(
      [result, inputs, rescored, contract = live.contract,
       folder = world_.runner.folder(job_key(live.run.key, "rescore"))]() mutable {
        *result = evaluate(*contract, std::move(inputs), rescored, folder);
      },
      [this, result, run = live.run.key] {
        auto* found = find(run.promotion);
        if (found == nullptr) return;
        found->evaluating = false;
        if (found->run.key != run || found->row.state != store::PromotionState::running) return;
        if (result->error) return fail_stage(*found, *result->error, "the shadow evaluation");
        finish_stage(*found, result->conclusion);
      });
}

}  // namespace driftgate::pipeline
