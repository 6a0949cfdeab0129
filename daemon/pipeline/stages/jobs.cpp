#include "daemon/pipeline/stages/jobs.hpp"

#include <algorithm>

#include "daemon/base/read_file.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

/// Jobs that score the requests which a `sample` order mirrored.
constexpr std::string_view kSamplePrefix = "sample-";

store::JobState state_of(const jobs::JobResult& result) {
  if (result.ok) return store::JobState::done;
  return result.error && result.error->code == schema::ErrorCode::conflict ? store::JobState::cancelled
                                                                           : store::JobState::failed;
}

/// The pairs of a sample and their table, under the digests that the entry job_finished names.
schema::Result<void> keep_sample(store::Tx& tx, const jobs::JobResult& result, const std::string& folder,
                                 std::int64_t now_us) {
  for (const auto& [name, file] : result.files) {
    const auto bytes = base::read_file(folder + "/" + file).value_or(std::string());
    if (bytes.empty() || bytes.size() > store::kMaxBlobBytes) continue;
    const auto* const type = name == "pairs" ? "application/jsonl" : "application/vnd.driftgate.table";
    TRY(store::put_blob(tx, bytes, type, now_us));
  }
  return {};
}

}  // namespace

std::string job_key(const store::StageKey& stage, std::string_view name) {
  return stage.text() + "/" + std::string(name);
}

schema::Result<StageJob> look_at_job(Context& context, const Live& live, std::string_view name,
                                     jobs::JobKind kind, const jobs::JobLimits& limits,
                                     const std::string& payload) {
  StageJob job;
  job.spec = {job_key(live.run.key, name), kind, limits, payload};
  if (kind == jobs::JobKind::drift) job.spec.ranks = context.world.settings.job_ranks;
  auto listed = TRY(look_up(context.world.store, store::list_jobs, live.run.key));
  const auto known = std::ranges::find(listed, name, &store::JobRow::name);
  job.is_new = known == listed.end();
  if (job.is_new) {
    job.row.id = context.new_id("job");
    job.row.stage = live.run.key;
    job.row.name = name;
    job.row.kind = std::string(jobs::to_string(kind));
    job.row.dir = context.world.runner.folder(job.spec.key);
    job.row.state = store::JobState::running;
    job.row.spec_digest = schema::sha256_digest(jobs::to_json(job.spec));
    job.row.created_us = context.now();
    return job;
  }
  job.row = *known;
  const bool ended = job.row.state == store::JobState::done || job.row.state == store::JobState::failed ||
                     job.row.state == store::JobState::cancelled;
  if (!ended) return job;
  auto result = TRY(jobs::job_result_from_json(job.row.result));
  job.result = std::move(result);
  return job;
}

void dispatch(Change& change, const StageJob& job, std::string what) {
  change.name = "dispatch job";
  if (job.is_new) {
    change.rows.emplace_back([row = job.row](store::Tx& tx, Entries&) -> schema::Result<void> {
      TRY(store::ensure_job(tx, row));
      return {};
    });
  }
  change.effects.emplace_back(StartJob{job.row.stage, job.spec, std::move(what)});
}

schema::Result<void> put_ended_job(store::Tx& tx, Entries& entries, const Facts& facts, store::JobRow& job,
                                   const jobs::JobDone& done, const std::string& folder) {
  job.state = state_of(done.result);
  job.result = jobs::to_json(done.result);
  job.ended_us = facts.now_us;
  if (done.place) job.remote = done.place->remote;
  TRY(store::update_job(tx, job));
  auto added =
      add_entry(tx, entries, draft(facts, schema::EvidenceKind::job_finished, {}, job_body(job, done)));
  const bool sample = done.result.ok && job.name.starts_with(kSamplePrefix);
  return added && sample ? keep_sample(tx, done.result, folder, facts.now_us) : added;
}

}  // namespace driftgate::pipeline
