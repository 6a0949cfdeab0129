#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/jobs/local_runner.hpp"
#include "daemon/jobs/slurm/slurm_runner.hpp"

namespace driftgate::jobs {

/// Where new jobs run.
enum class RunnerChoice : std::uint8_t { local, slurm, automatic };

struct ChosenRunnerOptions {
  RunnerChoice choice = RunnerChoice::local;
  std::vector<JobKind> slurm_kinds;    ///< that may run on Slurm
  std::uint64_t slurm_from_bytes = 0;  ///< automatic: input files above it go to Slurm
  LocalRunnerOptions local;            ///< its folder is that of all jobs when new jobs are local
  SlurmRunnerOptions slurm;            ///< its folder is that of all jobs otherwise
};

/// Whether a new job goes to Slurm. `input_bytes` is asked only where it matters.
[[nodiscard]] bool goes_to_slurm(const ChosenRunnerOptions& options, const JobSpec& spec,
                                 const std::function<std::uint64_t()>& input_bytes);

/// Bytes of the files that a job reads, as far as its payload names them: captures and corpus, the files and
/// folders among an adapter's words, the spool.
[[nodiscard]] std::uint64_t input_bytes(const JobSpec& spec);

/// A runner that sends each new job to this machine or to Slurm, and leaves each that has started where it
/// is, whatever the choice was then. No call waits for a disk or for Slurm (detached_runner.hpp). Errors of
/// both runners' opening.
[[nodiscard]] schema::Result<std::unique_ptr<JobRunner>> open_chosen_runner(ChosenRunnerOptions options);

/// Refuses, with `conflict`, settings under which a job at Slurm would be started a second time: `folders`
/// are those of open jobs as they were stored, and one of them has a submission but lies in no folder of the
/// options. Looks at the disk only where a folder is in none.
[[nodiscard]] schema::Result<void> check_open_folders(const ChosenRunnerOptions& options,
                                                      const std::vector<std::string>& folders);

}  // namespace driftgate::jobs
