#include "daemon/pipeline/stages/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <boost/algorithm/string/split.hpp>
#include <charconv>
#include <utility>

#include "daemon/base/read_file.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"
#include "schema/sha256.hpp"
#include "schema/utf8.hpp"

namespace driftgate::pipeline {
namespace {

/// Jobs that score the requests which a `sample` order mirrored.
constexpr std::string_view kSamplePrefix = "sample-";
constexpr std::size_t kMaxPlaceBytes = 400;

store::JobState state_of(const jobs::JobResult& result) {
  if (result.ok) return store::JobState::done;
  return result.error && result.error->code == schema::ErrorCode::conflict ? store::JobState::cancelled
                                                                           : store::JobState::failed;
}

/// The end of a job that a person cancelled.
jobs::JobResult cancelled_result(const store::JobRow& job, std::int64_t wall_ms) {
  auto result = jobs::failed(schema::ErrorCode::conflict,
                             fmt::format("cancelled by {}: {}", job.cancelled_by, job.cancel_reason));
  result.wall_ms = wall_ms;
  return result;
}

}  // namespace

std::string job_key(const store::StageKey& stage, std::string_view name) {
  return stage.text() + "/" + std::string(name);
}

std::optional<store::StageKey> stage_in(const std::string& key) {
  std::vector<std::string> parts;
  boost::split(parts, key, [](char c) { return c == '/'; });
  if (parts.size() != 4) return std::nullopt;
  store::StageKey stage{parts[0], parts[1], 0};
  const auto& number = parts[2];
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), stage.attempt);
  if (error != std::errc{} || job_key(stage, parts[3]) != key) return std::nullopt;
  return stage;
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
    job.row.model = live.row.model;
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
  // The daemon that was asked to cancel it may have died before its runner was.
  if (job.row.cancelled_us) change.effects.emplace_back(CancelJob{job.spec.key});
}

schema::Result<void> put_ended_job(store::Tx& tx, Entries& entries, const Facts& facts, store::JobRow& job,
                                   const jobs::JobDone& done, const KeptFiles& kept) {
  auto ended = done;
  if (job.cancelled_us) ended.result = cancelled_result(job, done.result.wall_ms);
  auto& result = ended.result;
  if (!done.folder.empty()) job.dir = done.folder;
  if (result.error) {
    auto& error = *result.error;
    error.message = without_folder(std::move(error.message), job.dir);
    error.where = without_folder(std::move(error.where), job.dir);
  }
  job.state = state_of(result);
  job.result = jobs::to_json(result);
  job.ended_us = facts.now_us;
  if (done.place) {
    job.runner = done.place->runner;
    job.remote = done.place->remote;
    job.nodes = schema::utf8_text(done.place->nodes, kMaxPlaceBytes);
    job.place_reason = schema::utf8_text(done.place->reason, kMaxPlaceBytes);
  }
  TRY(store::update_job(tx, job));
  TRY(add_entry(
      tx, entries, draft(facts, schema::EvidenceKind::job_finished, job.cancelled_by, job_body(job, ended))));
  // Under the digests that the entry names.
  for (const auto& [type, bytes] : kept) TRY(store::put_blob(tx, bytes, type, facts.now_us));
  return {};
}

std::string without_folder(std::string text, const std::string& folder) {
  if (!folder.empty()) boost::replace_all(text, folder, "the job's folder");
  return text;
}

KeptFiles files_to_keep(const jobs::JobDone& done) {
  KeptFiles kept;
  const auto name = std::string_view(done.key).substr(done.key.rfind('/') + 1);
  if (!done.result.ok || !name.starts_with(kSamplePrefix)) return kept;
  for (const auto& [what, file] : done.result.files) {
    auto bytes = base::read_file(done.folder + "/" + file).value_or(std::string());
    if (bytes.empty() || bytes.size() > store::kMaxBlobBytes) continue;
    kept.emplace_back(what == "pairs" ? "application/jsonl" : "application/vnd.driftgate.table",
                      std::move(bytes));
  }
  return kept;
}

schema::Result<std::vector<std::string>> put_left_jobs(store::Tx& tx, Entries& entries, const Facts& facts,
                                                       const store::StageKey& run) {
  std::vector<std::string> keys;
  const auto result = jobs::failed(schema::ErrorCode::conflict, "its stage ended without it");
  auto left = TRY(store::end_open_jobs(tx, run, jobs::to_json(result), facts.now_us));
  for (auto& job : left) {
    keys.push_back(job_key(run, job.name));
    jobs::JobDone done{.key = keys.back(), .result = result};
    if (facts.runner != nullptr) done.place = facts.runner->place(done.key);
    TRY(put_ended_job(tx, entries, facts, job, done, {}));
  }
  return keys;
}

}  // namespace driftgate::pipeline
