#include <fmt/format.h>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

store::JobState state_of(const jobs::JobResult& result) {
  if (result.ok) return store::JobState::done;
  return result.error && result.error->code == schema::ErrorCode::conflict ? store::JobState::cancelled
                                                                           : store::JobState::failed;
}

}  // namespace

std::string Core::job_key(const store::StageKey& stage, std::string_view name) {
  return stage.text() + "/" + std::string(name);
}

/// The job's result when it has ended, nothing while it runs. Dispatches it when it is new, and again (which
/// adopts it) when this process has not seen it yet.
schema::Result<std::optional<jobs::JobResult>> Core::ensure_job(Live& live, const char* name,
                                                                jobs::JobKind kind,
                                                                const jobs::JobLimits& limits,
                                                                const std::string& payload) {
  const jobs::JobSpec spec{job_key(live.run.key, name), kind, limits, payload};
  store::JobRow row;
  row.id = new_id("job");
  row.stage = live.run.key;
  row.name = name;
  row.kind = std::string(jobs::to_string(kind));
  row.dir = world_.runner.folder(spec.key);
  row.state = store::JobState::running;
  row.spec_digest = schema::sha256_digest(jobs::to_json(spec));
  row.created_us = now();
  auto listed =
      world_.store.read([&](store::Reader& reader) { return store::list_jobs(reader, live.run.key); });
  if (!listed) return std::unexpected(listed.error());
  for (const auto& known : *listed) {
    if (known.name != name) continue;
    row = known;
    break;
  }
  if (row.state == store::JobState::done || row.state == store::JobState::failed ||
      row.state == store::JobState::cancelled) {
    auto result = jobs::job_result_from_json(row.result);
    if (!result) return std::unexpected(result.error());
    return std::optional(*result);
  }
  auto stored = commit("dispatch job", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto ensured = store::ensure_job(tx, row);
    if (!ensured) return std::unexpected(ensured.error());
    return {};
  });
  if (!stored) return std::unexpected(stored.error());
  auto started = world_.runner.start(spec);
  if (!started) return std::unexpected(started.error());
  return std::optional<jobs::JobResult>();
}

/// The end of a job is one transaction; then its stage goes on.
void Core::on_job_done(const jobs::JobDone& done) {
  for (auto& [id, live] : live_) {
    const auto prefix = live->run.key.text() + "/";
    if (live->run.key.stage.empty() || !done.key.starts_with(prefix)) continue;
    const auto name = done.key.substr(prefix.size());
    auto listed =
        world_.store.read([&](store::Reader& reader) { return store::list_jobs(reader, live->run.key); });
    if (!listed) return stumble(*live, listed.error());
    for (auto& job : *listed) {
      if (job.name != name || job.state != store::JobState::running) continue;
      job.state = state_of(done.result);
      job.result = jobs::to_json(done.result);
      job.ended_us = now();
      auto stored = commit("finish job", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
        auto updated = store::update_job(tx, job);
        if (!updated) return updated;
        auto seq =
            entries.add(tx, draft(*live, schema::EvidenceKind::job_finished, {}, job_body(job, done.result)));
        if (!seq) return std::unexpected(seq.error());
        const bool sample = done.result.ok && name.starts_with("sample-");
        return sample ? keep_sample(tx, done.result, world_.runner.folder(done.key)) : schema::Result<void>{};
      });
      if (!stored) return stumble(*live, stored.error());
    }
    if (live->row.state == store::PromotionState::running && live->retry_at_us == 0) enter_stage(*live);
    return;
  }
}

}  // namespace driftgate::pipeline
