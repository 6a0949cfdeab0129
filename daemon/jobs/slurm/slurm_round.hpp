#pragma once

#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/jobs/job_folder.hpp"
#include "daemon/jobs/slurm/job_states.hpp"
#include "daemon/jobs/slurm/slurm_runner.hpp"
#include "daemon/jobs/slurm/submissions.hpp"

namespace driftgate::jobs {

/// The jobs of one Slurm runner, as its thread holds them. Nothing here locks; nothing else uses it.
class SlurmJobs {
 public:
  SlurmJobs(const SlurmRunnerOptions& options, int stop_fd);

  /// Takes a job over: a new one, or one of which a daemon before this one left a folder.
  void add(const JobSpec& spec);
  void cancel(const std::string& key);
  /// Drops all jobs whose key starts with `prefix`, at Slurm too, and deletes their folders.
  void forget(const std::string& prefix);
  /// See JobRunner::drop_left.
  void drop_left(const FateOf& fate_of);

  /// One look at the folders and at Slurm, and what follows from it. Returns jobs that have ended.
  [[nodiscard]] std::vector<JobDone> look();
  /// Whether looking again later can change anything.
  [[nodiscard]] bool has_work() const { return !jobs_.empty() || is_owed(); }
  /// Whether Slurm has to be asked even without a job.
  [[nodiscard]] bool is_owed() const {
    return look_for_strays_ || !cancels_.empty() || !forgotten_.empty() || !finished_.empty();
  }
  [[nodiscard]] std::vector<std::pair<std::string, JobPlace>> places() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// Number and folder: a number alone may be another job's.
  using Cancel = std::pair<std::string, std::string>;
  /// Of a job that Slurm does not take, for a reason that may pass.
  struct Refusal {
    Clock::time_point since{}, next_try{};
    std::chrono::milliseconds pause{};
  };
  struct Job {
    JobSpec spec;
    JobFolder folder;
    SubmissionRecord record{};
    std::string saved{};                             ///< slurm.json as it was written last
    std::optional<QueuedJob> known{};                ///< the submission that counts, as Slurm has it
    std::optional<Clock::time_point> ended_since{};  ///< Slurm knows none that is alive
    std::optional<Clock::time_point> unfit_since{};  ///< see is_unfit
    std::string wait_reason{};                       ///< why it waits in the daemon
    std::optional<Refusal> refusal{};
    bool unanswered = false;  ///< sbatch was asked, and nobody knows whether it took the job
    std::optional<JobResult> ended{};
  };

  void note_cancelled(const JobFolder& folder);
  void look_for_results();
  void look_at_queue();
  void controller_away(const schema::Error& error);
  void take_over(Job& job, const std::vector<QueuedJob>& queue);
  void note_state(Job& job, const QueuedJob& seen);
  void choose_submission(Job& job, const std::vector<QueuedJob>& queue);
  void judge_ended(Job& job);
  void act(Job& job);
  void submit(Job& job);
  void refused(Job& job, const schema::Error& error);
  void cancel_unwanted(const std::vector<QueuedJob>& queue);
  void cancel_at_slurm(const std::vector<QueuedJob>& queue);
  [[nodiscard]] schema::Result<void> prepare_folder(const Job& job) const;
  void begin(Job& job, const std::string& id, bool doubled) const;
  void cancel_strays(const std::vector<QueuedJob>& queue);
  [[nodiscard]] bool is_stray(const QueuedJob& seen) const;
  [[nodiscard]] JobFacts facts_of(Job& job) const;
  [[nodiscard]] bool is_known(const std::string& key) const;
  bool take_result(Job& job, bool slurm_has_ended) const;
  void end(Job& job, schema::Error error);
  void save(Job& job) const;
  [[nodiscard]] JobPlace place(const Job& job) const;
  [[nodiscard]] std::size_t at_slurm() const;
  void log(std::string_view level, const std::string& text) const;

  const SlurmRunnerOptions& options_;
  SlurmCommands commands_;
  std::list<Job> jobs_;              ///< in the order in which they came
  std::set<Cancel> cancels_;         ///< jobs at Slurm that are to go
  std::set<std::string> forgotten_;  ///< folders whose jobs at Slurm are to go
  std::map<std::string, Clock::time_point>
      finished_;  ///< folders of jobs with a result, and when it was seen
  std::optional<Clock::time_point> away_since_;
  std::string away_reason_;
  std::string full_reason_;  ///< why nothing more is submitted in this look; "" while it may be
  bool look_for_strays_;
};

}  // namespace driftgate::jobs
