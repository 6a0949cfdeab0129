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
  std::string model{};
  std::string runner{};         ///< "local" or "slurm" once it has ended, "" before
  std::string nodes{};          ///< that it ran on
  std::string place_reason{};   ///< in the words of Slurm
  std::string cancelled_by{};   ///< the person who asked for its end, or ""
  std::string cancel_reason{};  ///< that they gave
  std::optional<std::int64_t> cancelled_us{};
  bool operator==(const JobRow&) const = default;
};

/// The columns of a JobRow, in the order of its members.
#define DRIFTGATE_JOB_COLUMNS                                                                        \
  "id, promotion, stage, attempt, name, kind, dir, state, remote, spec_digest, result, created_us, " \
  "ended_us, "                                                                                       \
  "model, runner, nodes, place_reason, cancelled_by, cancel_reason, cancelled_us"

/// The job of (stage, name) as stored: `job` itself when it was new, the older one when it was there.
Result<JobRow> ensure_job(Tx& tx, const JobRow& job);
/// Writes what an end changes: state, remote, result, ended_us, the place and the folder; `not_found` without such a job.
Result<void> update_job(Tx& tx, const JobRow& job);
/// Stores who asked for the end of a job that has not ended, unless somebody has before. `not_found` without
/// such a job.
Result<void> request_cancel(Tx& tx, const std::string& id, const std::string& by, const std::string& reason,
                            std::int64_t now_us);
/// Ends the jobs of a stage that have not ended as cancelled, with this result, and returns them as they
/// were.
Result<std::vector<JobRow>> end_open_jobs(Tx& tx, const StageKey& stage, const std::string& result,
                                          std::int64_t now_us);
Result<std::optional<JobRow>> find_job(Reader& reader, const std::string& id);
/// The same, `not_found` without such a job.
Result<JobRow> get_job(Reader& reader, const std::string& id);
Result<std::vector<JobRow>> list_jobs(Reader& reader, const StageKey& stage);
/// Jobs pending or running, oldest first: what a starting daemon adopts.
Result<std::vector<JobRow>> open_jobs(Reader& reader);

inline constexpr std::int64_t kMaxListedJobs = 1'000;

/// Which jobs: every given filter must match.
struct JobQuery {
  std::optional<JobState> state{};
  std::optional<std::string> model{}, promotion{}, kind{};
  std::string after{};      ///< id of the last job of the page before; empty: the first page
  std::int64_t limit = 50;  ///< at most kMaxListedJobs
};
/// A page, newest first, found by the index of its most selective filter; the others are checked row by row.
/// `invalid_argument` for a limit out of range.
Result<std::vector<JobRow>> query_jobs(Reader& reader, const JobQuery& query);
/// The statement that a query runs, for tests of its plan.
[[nodiscard]] const Sql& statement_of(const JobQuery& query);

}  // namespace driftgate::store
