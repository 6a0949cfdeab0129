#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::jobs {

struct SlurmAccess {
  std::filesystem::path bin_dir{};    ///< of sbatch and the others; empty: the usual folders
  std::filesystem::path conf_file{};  ///< SLURM_CONF; empty: the system's
  std::chrono::milliseconds command_limit{30'000};
  std::chrono::milliseconds accounting_pause{30'000};  ///< before sacct is asked again after it failed
};

/// One job as Slurm's queue has it.
struct QueuedJob {
  std::string id{}, state{}, reason{}, nodes{};
  std::uint32_t restarts = 0;       ///< how often Slurm itself has requeued it
  int exit_code = 0;                ///< of its batch script
  int signal = 0;                   ///< that ended it, or 0
  std::int64_t used_s = 0;          ///< how long it runs, or ran
  std::int64_t limit_s = 0;         ///< its time limit; 0: none, or unknown
  std::string comment{}, folder{};  ///< as they were given to sbatch
};

/// Whether a text is a number of a job, as Slurm writes it.
[[nodiscard]] bool is_slurm_id(std::string_view text);
/// The lines that squeue prints for kQueueFormat. Lines that are none are left out.
[[nodiscard]] std::vector<QueuedJob> queue_from_text(std::string_view text);
/// The line that sacct prints for a job: state, exit code, nodes, and where they are there seconds, minutes
/// of the limit, folder. The state keeps its " by UID".
[[nodiscard]] std::optional<QueuedJob> accounted_from_text(std::string_view text);
/// "1-02:03:04", "3:04", "04" in seconds; 0 for "UNLIMITED" and all else.
[[nodiscard]] std::int64_t duration_from_text(std::string_view text);

/// Slurm's programs, each run under limits with a cleared environment. What they print is untrusted text.
/// Errors: `unavailable` when the controller cannot be reached (or nobody can tell), `not_found` when a
/// program is missing.
class SlurmCommands {
 public:
  /// `stop_fd`: see Command.
  explicit SlurmCommands(SlurmAccess access, int stop_fd = -1);

  /// The path of a program, or `not_found` that says where it was looked for.
  [[nodiscard]] schema::Result<std::string> find(std::string_view program) const;
  /// sbatch with these words; the job's number. `invalid_argument` when Slurm refuses the job for what was
  /// asked for, `limit_exceeded` when the user has too many jobs there, `conflict` for a refusal of another
  /// kind, which may pass.
  [[nodiscard]] schema::Result<std::string> submit(const std::vector<std::string>& words) const;
  /// All jobs of this user in the controller's memory, ended ones too.
  [[nodiscard]] schema::Result<std::vector<QueuedJob>> queue() const;
  /// How a job ended that the controller has forgotten; nothing where no accounting is stored, or for a
  /// while after sacct failed.
  [[nodiscard]] std::optional<QueuedJob> accounted(const std::string& id);
  [[nodiscard]] schema::Result<void> cancel(const std::vector<std::string>& ids) const;
  /// Whether the controller answers.
  [[nodiscard]] schema::Result<void> ping() const;

 private:
  [[nodiscard]] schema::Result<struct CommandEnd> run(std::string_view program,
                                                      const std::vector<std::string>& words) const;
  SlurmAccess access_;
  int stop_fd_;
  bool has_accounting_ = true;  ///< until sacct says otherwise
  std::chrono::steady_clock::time_point ask_again_{};  ///< of sacct
};

}  // namespace driftgate::jobs
