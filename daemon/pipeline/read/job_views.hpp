#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

// Jobs as the JSON that service.hpp describes. The runner is asked where those are that have not ended, and
// how far. What reads a job's folder takes the row that was read before: no transaction waits for a disk.

/// `logs`: what the job's folder has; `with_folder`: the view names it.
[[nodiscard]] View job_view(const store::JobRow& row, jobs::JobRunner& runner,
                            const std::vector<std::string>& logs, bool with_folder);
[[nodiscard]] schema::Result<Page> job_page(store::Reader& reader, jobs::JobRunner& runner,
                                            const JobFilter& filter, const PageRequest& request);
/// Reads the job's folder.
[[nodiscard]] schema::Result<View> job_log_view(const store::JobRow& row, const JobLogRequest& request);

/// {"runner", "remote", "state", "reason", "nodes"}, or null.
[[nodiscard]] nlohmann::json place_json(const std::optional<jobs::JobPlace>& place);
/// "queued at Slurm as 1234: Priority": for sentences; "" when there is nothing to say of it.
[[nodiscard]] std::string place_text(const jobs::JobPlace& place);

/// Jobs that have not ended, by runner and by where they stand ("waiting", "queued", "running").
[[nodiscard]] schema::Result<JobCounts> count_jobs(store::Reader& reader, jobs::JobRunner& runner);

}  // namespace driftgate::pipeline
