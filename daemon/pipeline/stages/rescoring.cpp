#include "daemon/pipeline/stages/rescoring.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "daemon/store/registry/engines.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

constexpr const char* kMirroring = "mirroring";
constexpr const char* kStopping = "stopping";
constexpr std::uint32_t kBatchPrompts = 256;

/// Whether a clause of shadow-runtime is about a metric of this group.
bool is_asked_for(const schema::Contract& contract, schema::MetricGroup group) {
  return std::ranges::any_of(contract.clauses, [group](const schema::Clause& clause) {
    const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
    return subject != nullptr && schema::info(subject->metric).group == group &&
           (clause.stages & schema::stage_bit(schema::Stage::shadow_runtime)) != 0;
  });
}

schema::Result<jobs::RescorePayload::Side> side_of(store::Reader& reader, const Live& live,
                                                   const store::VersionRow& version) {
  auto engine = TRY(store::find_engine(reader, version.engine));
  if (!engine)
    return schema::fail(ErrorCode::corrupt, fmt::format("engine {} is not stored", version.engine));
  auto abilities = TRY(jobs::abilities_from_json(engine->abilities));
  auto access = TRY(store::access_at(reader, version.base_url));
  return jobs::RescorePayload::Side{
      version.base_url,        abilities.models.empty() ? live.row.model : abilities.models.front(),
      version.kernel,          abilities.scoring,
      abilities.token_ids,     abilities.logprobs_by,
      abilities.chat_logprobs, std::move(access)};
}

/// Stores the job that scores a sample, and starts it. It belongs to no transition, so nothing waits for it.
schema::Result<void> score_sample(Context& context, Live& live, const std::string& spool) {
  auto payload = TRY(rescore_payload(context, live, spool));
  auto job =
      TRY(look_at_job(context, live, fmt::format("sample-{}", live.progress.samples + 1),
                      jobs::JobKind::rescore, context.world.settings.rescore_limits, jobs::to_json(payload)));
  if (job.result) return {};
  Change change;
  dispatch(change, job, {});
  change.effects.clear();
  auto stored = context.commit_change(live, std::move(change));
  return stored ? context.world.runner.start(job.spec) : stored;
}

}  // namespace

schema::Result<jobs::RescorePayload> rescore_payload(Context& context, const Live& live,
                                                     const std::string& spool) {
  // In a canary the candidate serves users: it gets no requests beyond those that a clause is decided on.
  const bool shadow = live.run.key.stage == schema::to_string(schema::Stage::shadow_runtime);
  const bool batches = shadow && is_asked_for(*live.contract, schema::MetricGroup::batch);
  jobs::RescorePayload payload{
      .spool = spool,
      .incumbent = {},
      .candidate = {},
      .checkpoint = live.candidate.checkpoint,
      .contract = live.contract->canonical_json,
      .max_rescored = context.world.settings.max_rescored,
      .batch_prompts = batches ? kBatchPrompts : 0,
      .compare_greedy = shadow && is_asked_for(*live.contract, schema::MetricGroup::greedy),
      .seed = live.row.seed,
      .outgoing = context.world.settings.outgoing};
  TRY(context.world.store.read([&](store::Reader& reader) -> schema::Result<void> {
    auto incumbent = TRY(side_of(reader, live, live.baseline));
    auto candidate = TRY(side_of(reader, live, live.candidate));
    payload.incumbent = std::move(incumbent);
    payload.candidate = std::move(candidate);
    return {};
  }));
  return payload;
}

void follow_sampling(Context& context, Live& live) {
  const auto& model = *context.model_of(live);
  auto& progress = live.progress;
  if (!model.agreed || live.retry_at_us != 0) return;
  if (model.desired.mirror_bp > 0) {
    progress.sample = kMirroring;  // kept with the next window
    return;
  }
  if (progress.sample.empty()) return;
  progress.sample = kStopping;
  const auto spool = context.world.driver.spool_path(live.run.key.text());
  if (!spool && spool.error().code == ErrorCode::conflict) return;
  if (spool) {
    auto scored = score_sample(context, live, *spool);
    if (!scored) {
      return context.warn(fmt::format("the sampled requests of {} are not scored yet: {}",
                                      live.run.key.text(), scored.error().describe()));
    }
  }
  progress.samples += 1;
  progress.sample.clear();
}

}  // namespace driftgate::pipeline
