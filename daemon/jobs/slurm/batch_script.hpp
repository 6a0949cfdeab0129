#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// What Slurm is asked for, from the settings of `slurm`. Empty texts and zeros are not passed on.
struct SlurmResources {
  std::string partition{}, account{}, qos{}, constraint{};
  std::string gres{};  ///< of each rank: "gpu:COUNT" or "gpu:TYPE:COUNT"
  std::uint32_t nodes = 0;
  std::uint32_t cpus_per_rank = 1;
  std::uint64_t memory_bytes_per_rank = 0;
  std::int64_t time_limit_s = 0;  ///< 0: the job's own wall limit
};

/// `invalid_argument` for values that sbatch would take for something else.
[[nodiscard]] schema::Result<void> check_resources(const SlurmResources& resources);

/// The batch script's template. `@name@` stands for a value; values that a job brings are quoted for the
/// shell:
///   @command@        all that runs the job: @launch@ and the worker with its folder
///   @launch@         "srun …" for several ranks, nothing for one
///   @worker@         path of driftgate on the nodes
///   @job_dir@        the job's folder
///   @ranks@          how many
///   @cpus_per_rank@  processors of each
///   @kind@           drift, capture or rescore
///   @name@, @key@    the job's name, and "promotion/stage/attempt/name"
/// `#SBATCH` lines are the site's own; what the daemon passes to sbatch goes before them.
[[nodiscard]] std::string_view shipped_template();

/// `invalid_document` for a template with an unknown variable, without `#!`, or that never runs the worker.
[[nodiscard]] schema::Result<void> check_template(std::string_view text);

/// The script of one job.
[[nodiscard]] std::string batch_script(std::string_view text, const JobSpec& spec, const std::string& job_dir,
                                       const std::string& worker, const SlurmResources& resources);

/// What a job is found again by: its comment at Slurm.
[[nodiscard]] std::string job_comment(std::string_view key);

/// sbatch's words for it: who it is, where its output goes, what it needs, and the script's path.
[[nodiscard]] std::vector<std::string> sbatch_words(const JobSpec& spec, const std::string& job_dir,
                                                    const SlurmResources& resources);

/// The time limit of a submission as Slurm is told it, in whole minutes.
[[nodiscard]] std::int64_t time_limit_min(const JobSpec& spec, const SlurmResources& resources);

/// `text` as one word of a POSIX shell.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace driftgate::jobs
