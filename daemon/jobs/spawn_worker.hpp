#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/job_folder.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

struct WorkerProcess {
  int pid = 0;
  base::UniqueFd pidfd;
};

/// Locks the job's folder and starts `argv` + the folder in it: own process group, cleared environment,
/// output to `log`, the locked descriptor inherited as kLockDescriptor, so that the lock is held without a
/// gap.
[[nodiscard]] schema::Result<WorkerProcess> spawn_worker(const JobFolder& folder,
                                                         std::vector<std::string> argv);

/// The worker that holds the folder's lock now, or pid 0 when none does.
[[nodiscard]] WorkerProcess adopt_worker(const JobFolder& folder);

/// Kills the worker's process group and that of the adapter it runs.
void kill_worker(const JobFolder& folder, int pid);

}  // namespace driftgate::jobs
