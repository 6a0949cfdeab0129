#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/pipeline/context.hpp"
#include "daemon/store/jobs.hpp"

namespace driftgate::pipeline {

/// "promotion/stage/attempt/name".
[[nodiscard]] std::string job_key(const store::StageKey& stage, std::string_view name);

/// The stage in such a key; nothing where it is none.
[[nodiscard]] std::optional<store::StageKey> stage_in(const std::string& key);

/// A job of the stage that runs, as stored.
struct StageJob {
  store::JobRow row;
  jobs::JobSpec spec;
  bool is_new = false;                      ///< its row is not stored yet
  std::optional<jobs::JobResult> result{};  ///< once it has ended
};
[[nodiscard]] schema::Result<StageJob> look_at_job(Context& context, const Live& live, std::string_view name,
                                                   jobs::JobKind kind, const jobs::JobLimits& limits,
                                                   const std::string& payload);
/// `change` stores the row of a new job and starts it. A job that runs is started again, which adopts it when
/// this process has not seen it yet. `what` as in StartJob.
void dispatch(Change& change, const StageJob& job, std::string what);
/// Files of a job that are kept although its folder goes.
using KeptFiles = std::vector<std::pair<std::string, std::string>>;  ///< media type and bytes
/// The pairs of a sample and their table, of a job that scored one. Reads them: not on the loop, and in no
/// transaction.
[[nodiscard]] KeptFiles files_to_keep(const jobs::JobDone& done);
/// The job has ended: its row, its entry, and what is kept of it. One that a person cancelled before ends as
/// cancelled by them, whatever its result is.
[[nodiscard]] schema::Result<void> put_ended_job(store::Tx& tx, Entries& entries, const Facts& facts,
                                                 store::JobRow& job, const jobs::JobDone& done,
                                                 const KeptFiles& kept);
/// The text without the path of the job's folder, which only operators see.
[[nodiscard]] std::string without_folder(std::string text, const std::string& folder);
/// The run has ended: its jobs that have not are cancelled, each with an entry. Returns their keys, for the
/// runner.
[[nodiscard]] schema::Result<std::vector<std::string>> put_left_jobs(store::Tx& tx, Entries& entries,
                                                                     const Facts& facts,
                                                                     const store::StageKey& run);

}  // namespace driftgate::pipeline
