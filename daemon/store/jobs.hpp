#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::store {

/// A unit of dispatched work.
struct JobRow {
  std::string id{};  ///< "job-…"
  StageKey stage{};
  std::string
      name;  ///< unique in the attempt, e.g. "drift" or "capture-inf": a repeated dispatch finds the job
  std::string kind{};  ///< capture, drift, replay, rescore
  std::string dir{};   ///< the worker's folder
  JobState state = JobState::pending;
  std::string remote{};  ///< Slurm job id or process id, "" when unknown
  std::string spec_digest{};
  std::string result{};  ///< JSON of result.json, or ""
  std::int64_t created_us = 0;
  std::optional<std::int64_t> ended_us{};
  bool operator==(const JobRow&) const = default;
};

/// The job of (stage, name) as stored: `job` itself when it was new, the older one when it was there.
Result<JobRow> ensure_job(Tx& tx, const JobRow& job);
/// Writes state, remote, result and ended_us; `not_found` without such a job.
Result<void> update_job(Tx& tx, const JobRow& job);
Result<std::optional<JobRow>> find_job(Reader& reader, std::string_view id);
Result<std::vector<JobRow>> list_jobs(Reader& reader, const StageKey& stage);
/// Jobs pending or running, oldest first: what a starting daemon adopts.
Result<std::vector<JobRow>> open_jobs(Reader& reader);

}  // namespace driftgate::store
