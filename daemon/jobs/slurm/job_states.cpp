#include "daemon/jobs/slurm/job_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;
using Kind = JobStep::Kind;
using Phase = SlurmPhase;

constexpr int kStoppedEarly = 75;  // EX_TEMPFAIL: the worker was told to stop and kept what it measured
constexpr int kCannotWrite = 74;   // EX_IOERR: it could not lock its folder, or write there
constexpr std::int64_t kNearLimit_s = 120;  ///< Slurm warns up to 90 s before a time limit

constexpr std::array<std::pair<std::string_view, Phase>, 24> kPhases{{
    {"PENDING", Phase::queued},
    {"REQUEUED", Phase::queued},
    {"REQUEUE_FED", Phase::queued},
    {"REQUEUE_HOLD", Phase::queued},
    {"SPECIAL_EXIT", Phase::queued},
    {"RESV_DEL_HOLD", Phase::queued},
    {"CONFIGURING", Phase::running},
    {"RUNNING", Phase::running},
    {"COMPLETING", Phase::running},
    {"SUSPENDED", Phase::running},
    {"STOPPED", Phase::running},
    {"RESIZING", Phase::running},
    {"SIGNALING", Phase::running},
    {"STAGE_OUT", Phase::running},
    {"COMPLETED", Phase::completed},
    {"FAILED", Phase::failed},
    {"CANCELLED", Phase::cancelled},
    {"TIMEOUT", Phase::timed_out},
    {"NODE_FAIL", Phase::lost},
    {"BOOT_FAIL", Phase::lost},
    {"PREEMPTED", Phase::lost},
    {"REVOKED", Phase::lost},
    {"OUT_OF_MEMORY", Phase::out_of_memory},
    {"DEADLINE", Phase::deadline},
}};

JobStep failure(ErrorCode code, std::string message) {
  return {Kind::fail, schema::Error{code, std::move(message), {}, nullptr}};
}

std::string last_words(const JobFacts& facts) {
  return facts.output.empty() ? std::string("what it printed is read with driftgate jobs logs")
                              : fmt::format("its last words: {}", facts.output);
}

JobStep full(const JobFacts& facts) {
  return failure(
      ErrorCode::storage_full,
      fmt::format("Slurm's job {} ended without a result: no space is left for {}", facts.id, facts.folder));
}

/// A beginning that came to nothing for no fault of the job's own.
JobStep again(const JobFacts& facts, std::string_view why) {
  if (facts.further || facts.stalled < facts.resubmissions) return {Kind::submit};
  return failure(
      ErrorCode::unavailable,
      fmt::format("Slurm's job {} ended with {} and had measured nothing more, the {}. time in a row; "
                  "slurm.resubmissions allows {}",
                  facts.id, why, facts.stalled + 1, facts.resubmissions));
}

/// Of a job that Slurm holds back for good.
JobStep release(const JobFacts& facts) {
  if (facts.stalled < facts.resubmissions) return {Kind::replace};
  const auto& why = facts.known->reason.empty() ? facts.known->state : facts.known->reason;
  auto step = failure(ErrorCode::unavailable,
                      fmt::format("Slurm holds its job {} back: {}; ask scontrol show job {} and the logs of "
                                  "its node",
                                  facts.id, why, facts.id));
  step.kind = Kind::cancel_and_fail;
  return step;
}

JobStep at_time_limit(const JobFacts& facts) {
  if (facts.further) return {Kind::submit};
  const auto limit = facts.known->limit_s > 0 ? fmt::format("of {} s ", facts.known->limit_s) : std::string();
  return failure(
      ErrorCode::deadline_exceeded,
      fmt::format("Slurm's job {} reached its time limit {}and had measured no further chunk; raise "
                  "slurm.time_limit_s, or jobs.wall_limit_s where that is 0",
                  facts.id, limit));
}

bool is_near_limit(const QueuedJob& job) {
  return job.limit_s > 0 && job.used_s + kNearLimit_s >= job.limit_s;
}

/// Whether its script was ended by SIGTERM or SIGKILL, or says that srun's ranks were.
bool was_killed(const QueuedJob& job) {
  constexpr int kBySignal = 128;
  const auto kills = [](int signal) { return signal == SIGTERM || signal == SIGKILL; };
  return kills(job.signal) || (job.exit_code > kBySignal && kills(job.exit_code - kBySignal));
}

JobStep after_failure(const JobFacts& facts) {
  const auto& job = *facts.known;
  if (!facts.lost_rank.empty())
    return again(facts, fmt::format("the loss of one of its ranks ({})", facts.lost_rank));
  if (job.exit_code == kStoppedEarly)
    return is_near_limit(job) ? at_time_limit(facts) : again(facts, "a signal that told it to stop");
  if (facts.folder_full) return full(facts);
  // Slurm warns before the limit, and who does not stop in order, or in time, is killed by it.
  if (was_killed(job) && is_near_limit(job)) return at_time_limit(facts);
  // The worker before it was still alive on a node that Slurm had given up.
  if (job.exit_code == kCannotWrite && facts.output.find("held by a live process") != std::string::npos)
    return again(facts, "its folder locked by the worker before it");
  if (job.exit_code == kCannotWrite)
    return failure(ErrorCode::io, fmt::format("Slurm's job {} cannot write in {}; {}", facts.id, facts.folder,
                                              last_words(facts)));
  const auto how = job.signal != 0 ? fmt::format("was ended by signal {}", job.signal)
                                   : fmt::format("failed with exit status {}", job.exit_code);
  const auto reason = job.reason.empty() ? std::string() : fmt::format(" ({})", job.reason);
  return failure(ErrorCode::internal,
                 fmt::format("Slurm's job {} {}{}; {}", facts.id, how, reason, last_words(facts)));
}

/// Slurm says "CANCELLED by 1000" where accounting is stored, else only that it was.
JobStep after_cancel(const JobFacts& facts) {
  constexpr std::string_view kBy = "CANCELLED by ";
  const std::string_view state = facts.known->state;
  const auto who = state.starts_with(kBy) ? fmt::format(" by uid {}", state.substr(kBy.size()))
                                          : std::string(", not by driftgate");
  return failure(ErrorCode::unavailable, fmt::format("Slurm's job {} was cancelled{}", facts.id, who));
}

JobStep after_end(const JobFacts& facts, Phase phase) {
  switch (phase) {
    case Phase::completed:
      if (facts.folder_full) return full(facts);
      return failure(ErrorCode::internal,
                     fmt::format("Slurm's job {} ended with success and left no result; {}", facts.id,
                                 last_words(facts)));
    case Phase::failed:
      return after_failure(facts);
    case Phase::cancelled:
      return after_cancel(facts);
    case Phase::timed_out:
      return at_time_limit(facts);
    case Phase::lost:
      return again(facts, facts.known->state);
    case Phase::out_of_memory:
      return failure(
          ErrorCode::limit_exceeded,
          fmt::format("Slurm's job {} ran out of memory; raise slurm.memory_bytes_per_rank", facts.id));
    case Phase::deadline:
      return failure(ErrorCode::deadline_exceeded,
                     fmt::format("Slurm's job {} passed its deadline", facts.id));
    default:
      return {};  // alive, or a state that only time explains
  }
}

}  // namespace

SlurmPhase phase_of(std::string_view state) {
  const auto word = state.substr(0, state.find_first_of(" +"));
  const auto* const found = std::ranges::find(kPhases, word, &std::pair<std::string_view, Phase>::first);
  return found == kPhases.end() ? Phase::unknown : found->second;
}

bool is_alive(SlurmPhase phase) {
  return phase == Phase::queued || phase == Phase::running || phase == Phase::unknown;
}

/// Whether Slurm holds the job back after a beginning that failed: nobody asks it to begin later.
bool is_held_back(const QueuedJob& job) {
  return phase_of(job.state) == Phase::queued && (job.restarts > 0 || job.reason == "BeginTime");
}

/// Whether Slurm holds the job back for good after a beginning that failed: nothing but a person's release,
/// or another submission, would begin it. A job that a person holds is that person's to release.
bool is_held_for_good(const QueuedJob& job) {
  if (job.state == "REQUEUE_HOLD" || job.state == "SPECIAL_EXIT") return true;
  auto reason = job.reason;
  std::ranges::replace(reason, '_', ' ');
  return phase_of(job.state) == Phase::queued && reason.find("requeued held") != std::string::npos;
}

bool is_unfit(const QueuedJob& job) {
  constexpr std::array<std::string_view, 8> kReasons{
      "PartitionConfig",   "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints",
      "AccountNotAllowed", "QOSNotAllowed",      "InvalidAccount",     "InvalidQOS"};
  return phase_of(job.state) == Phase::queued && std::ranges::find(kReasons, job.reason) != kReasons.end();
}

bool needs_folder(const JobFacts& facts) {
  if (!facts.submitted) return false;
  return !facts.known || !is_alive(phase_of(facts.known->state)) || is_held_back(*facts.known);
}

JobStep next_step(const JobFacts& facts) {
  const auto cancelled = [] { return failure(ErrorCode::conflict, "the job was cancelled"); };
  if (!facts.submitted) return facts.cancelled ? cancelled() : JobStep{Kind::submit};
  if (facts.known && is_alive(phase_of(facts.known->state))) {
    if (facts.cancelled) return {Kind::cancel};
    // Slurm tries for ten minutes and more to start a job whose output file it cannot make.
    if (facts.folder_full && is_held_back(*facts.known)) return {Kind::cancel_and_fail, full(facts).error};
    if (is_held_for_good(*facts.known)) return release(facts);
    if (facts.unfit) {
      auto step = failure(ErrorCode::unavailable,
                          fmt::format("Slurm cannot start its job {} as it was asked for: {}; look at the "
                                      "settings of slurm and at its partition",
                                      facts.id, facts.known->reason));
      step.kind = Kind::cancel_and_fail;
      return step;
    }
    if (facts.stalled <= facts.resubmissions) return {};
    return {Kind::cancel_and_fail,
            schema::Error{ErrorCode::unavailable,
                          fmt::format("Slurm began the job {} {} times and it measured nothing more; "
                                      "slurm.resubmissions allows {}",
                                      facts.id, facts.stalled + 1, facts.resubmissions),
                          {},
                          nullptr}};
  }
  // Whatever Slurm says of it: while its worker lives there may be a result.
  if (facts.lock_held || !facts.settled) return {};
  if (facts.cancelled) return cancelled();
  if (facts.known) return after_end(facts, phase_of(facts.known->state));
  if (facts.folder_full) return full(facts);
  return failure(
      ErrorCode::unavailable,
      fmt::format("Slurm knows the job {} no more, and it left no result; {}", facts.id, last_words(facts)));
}

}  // namespace driftgate::jobs
