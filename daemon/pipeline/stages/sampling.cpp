#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "daemon/pipeline/core.hpp"
#include "daemon/store/blobs.hpp"

// What a `sample` order leads to: while it stands more requests are mirrored, and when it ends the pairs are
// scored by both engines, so that their log-probabilities are evidence.
namespace driftgate::pipeline {
namespace {

constexpr const char* kMirroring = "mirroring";
constexpr const char* kStopping = "stopping";

}  // namespace

/// Called as time passes: mirroring → stopping (mirrored answers are still in flight) → a job.
void Core::follow_sampling(Live& live) {
  const auto& model = models_.at(live.row.model);
  auto& progress = live.progress;
  if (!model.agreed || live.retry_at_us != 0) return;
  if (model.desired.mirror_bp > 0) {
    progress.sample = kMirroring;  // kept with the next window
    return;
  }
  if (progress.sample.empty()) return;
  progress.sample = kStopping;
  const auto spool = world_.driver.spool_path(live.run.key.text());
  if (!spool && spool.error().code == schema::ErrorCode::conflict) return;
  if (spool) {
    auto payload = rescore_payload(live, *spool);
    auto job =
        payload ? ensure_job(live, fmt::format("sample-{}", progress.samples + 1).c_str(),
                             jobs::JobKind::rescore, world_.settings.rescore_limits, jobs::to_json(*payload))
                : schema::Result<std::optional<jobs::JobResult>>(std::unexpected(payload.error()));
    if (!job)
      return warn(fmt::format("the sampled requests of {} are not scored yet: {}", live.run.key.text(),
                              job.error().describe()));
  }
  progress.samples += 1;
  progress.sample.clear();
}

/// The pairs and their table, under the digests that the entry job_finished names.
schema::Result<void> Core::keep_sample(store::Tx& tx, const jobs::JobResult& result,
                                       const std::string& folder) const {
  for (const auto& [name, file] : result.files) {
    std::ifstream stream(folder + "/" + file, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    if (bytes.empty() || bytes.size() > store::kMaxBlobBytes) continue;
    auto kept = store::put_blob(
        tx, bytes, name == "pairs" ? "application/jsonl" : "application/vnd.driftgate.table", now());
    if (!kept) return std::unexpected(kept.error());
  }
  return {};
}

}  // namespace driftgate::pipeline
