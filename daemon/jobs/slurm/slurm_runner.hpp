#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/jobs/job.hpp"
#include "daemon/jobs/slurm/batch_script.hpp"
#include "daemon/jobs/slurm/slurm_commands.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

struct SlurmRunnerOptions {
  std::filesystem::path jobs_dir{};  ///< absolute; on a file system that all nodes share
  SlurmAccess access{};
  SlurmResources resources{};
  std::string script_template{};  ///< a text that check_template accepts; empty: the shipped one
  std::string worker{};           ///< path of driftgate on the nodes
  std::chrono::milliseconds poll{2'000};
  /// From Slurm's word that a job has ended until its folder shows all that it wrote: network file systems
  /// show new files late.
  std::chrono::milliseconds settle{5'000};
  std::chrono::milliseconds away{3'600'000};  ///< how long the controller may be unreachable, or refuse a job
  /// From a result until a job that is still there is cancelled: its script may have more to do.
  std::chrono::milliseconds linger{60'000};
  std::size_t queue_limit = 256;              ///< jobs at Slurm at once
  std::size_t waiting_limit = 4'096;          ///< jobs that this runner knows; one more is `unavailable`
  std::uint32_t resubmissions = 2;            ///< see SubmissionRecord::stalled
  bool look_at_start = true;      ///< cancels jobs at Slurm whose folder a daemon before this one gave up
  bool folders_are_known = true;  ///< whether kJobsMarker was there at the start
  std::function<void(std::string_view level, const std::string& text)> log{};
};

/// A file of the folder of jobs. Without it the folder is new, or its file system is not mounted: then a job
/// at Slurm whose folder is missing is not taken for one that nobody waits for.
inline constexpr const char* kJobsMarker = ".driftgate-jobs";

/// Runs jobs through Slurm. One thread looks at the results in the folders and, once for all jobs, at Slurm's
/// queue. A job is found again by its comment and folder, so that it is submitted once however the daemon
/// ends; `slurm.json` in its folder says what was submitted. `io` when the folder cannot be made or written.
[[nodiscard]] schema::Result<std::unique_ptr<JobRunner>> open_slurm_runner(SlurmRunnerOptions options);

}  // namespace driftgate::jobs
