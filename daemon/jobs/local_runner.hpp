#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"

namespace driftgate::jobs {

struct LocalRunnerOptions {
  std::filesystem::path jobs_dir{};  ///< absolute; created with mode 0700
  /// What starts a worker; the job's folder is appended.
  std::vector<std::string> worker{"/proc/self/exe", "worker"};
  std::size_t slots = 2;          ///< jobs that run at once
  std::size_t queue_limit = 256;  ///< jobs that wait; one more is `unavailable`
};

/// Runs jobs as worker processes of this machine. A worker outlives the runner and the daemon; the next
/// runner adopts it by its lock when the job is started again under its key. One thread waits on pidfds.
/// `io` when the folder cannot be made.
[[nodiscard]] schema::Result<std::unique_ptr<JobRunner>> open_local_runner(LocalRunnerOptions options);

}  // namespace driftgate::jobs
