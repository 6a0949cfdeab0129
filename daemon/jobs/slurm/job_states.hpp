#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/jobs/slurm/slurm_commands.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// What a state of Slurm means for a job that has no result yet.
enum class SlurmPhase : std::uint8_t {
  queued,         ///< it waits, or will be started again by Slurm
  running,        ///< on nodes, or being started or cleaned up there
  completed,      ///< its script ended with 0
  failed,         ///< its script ended otherwise
  cancelled,      ///< by somebody
  timed_out,      ///< at its time limit
  lost,           ///< its node failed, or it was preempted
  out_of_memory,  ///< killed for it
  deadline,       ///< Slurm's deadline of the job passed
  unknown         ///< a word that this program does not know
};
/// Of "RUNNING", "CANCELLED by 1000" …
[[nodiscard]] SlurmPhase phase_of(std::string_view state);
[[nodiscard]] bool is_alive(SlurmPhase phase);

/// All that the next step for a job without a result.json follows from.
struct JobFacts {
  bool submitted = false;          ///< at least once
  std::optional<QueuedJob> known;  ///< its newest submission, by the queue or by accounting
  std::string id;                  ///< of it
  bool cancelled = false;          ///< by this daemon's orders
  bool lock_held = false;          ///< a worker lives
  bool settled = false;            ///< Slurm has said so for long enough that the folder must show all
  bool further = false;            ///< chunks were added since it began last
  std::uint32_t stalled = 0;       ///< see SubmissionRecord
  std::uint32_t resubmissions = 2;
  std::string folder;
  std::string output;        ///< the last lines of its worker and of Slurm's programs
  bool folder_full = false;  ///< no space is left there
  bool unfit = false;        ///< see is_unfit, for as long as the settings let a job wait for that to change
  std::string lost_rank{};   ///< why its worker could not go on without a rank; "" for all other ends
};

struct JobStep {
  enum class Kind : std::uint8_t {
    wait,
    submit,
    replace,          ///< cancel it at Slurm, and submit another one
    cancel,           ///< at Slurm, and wait for its end
    cancel_and_fail,  ///< at Slurm, and end with `error`
    fail              ///< end with `error`
  };
  Kind kind = Kind::wait;
  schema::Error error{};  ///< of the two that fail
};

/// Whether it waits for a reason that lies in what was asked for: more nodes or time than its partition has.
[[nodiscard]] bool is_unfit(const QueuedJob& job);

/// Whether looking at the lock, the folder's room and the output can change what next_step says. Of a job
/// that runs, or may start at any time, it does not: looking at a lock is in the way of who takes it.
[[nodiscard]] bool needs_folder(const JobFacts& facts);

[[nodiscard]] JobStep next_step(const JobFacts& facts);

}  // namespace driftgate::jobs
