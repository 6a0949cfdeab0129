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

/// Runs jobs as worker processes of this machine. A worker outlives this object and the daemon; the next
/// runner adopts it by its lock when the job is started again under its key. One thread waits on pidfds.
class LocalRunner final : public JobRunner {
 public:
  /// `io` when the folder cannot be made.
  [[nodiscard]] static schema::Result<std::unique_ptr<LocalRunner>> open(LocalRunnerOptions options);
  ~LocalRunner() override;

  void on_done(std::function<void(JobDone)> callback) override;
  schema::Result<void> start(const JobSpec& spec) override;
  void cancel(const std::string& key) override;
  [[nodiscard]] std::optional<JobProgress> progress(const std::string& key) override;
  void forget(const std::string& prefix) override;
  [[nodiscard]] std::size_t running() const override;
  [[nodiscard]] std::string folder(const std::string& key) const override;

 private:
  class Impl;
  explicit LocalRunner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::jobs
