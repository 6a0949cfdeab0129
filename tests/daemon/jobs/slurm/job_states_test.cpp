#include "daemon/jobs/slurm/job_states.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace driftgate;
using namespace driftgate::jobs;
using Kind = JobStep::Kind;
using schema::ErrorCode;

namespace {

/// A job of which Slurm says `state`, long enough ago, and whose worker is gone.
JobFacts ended(const std::string& state) {
  JobFacts facts;
  facts.submitted = true;
  facts.id = "12";
  facts.known = QueuedJob{.id = "12", .state = state};
  facts.settled = true;
  facts.folder = "/shared/job";
  return facts;
}

void check_fails(const JobFacts& facts, ErrorCode code, const std::string& said) {
  const auto step = next_step(facts);
  CAPTURE(facts.known ? facts.known->state : "unknown to Slurm");
  CHECK(step.kind == Kind::fail);
  CHECK(step.error.code == code);
  CHECK_MESSAGE(step.error.message.find(said) != std::string::npos, step.error.message);
}

const char* const kAlive[] = {"PENDING",      "REQUEUED",  "REQUEUE_FED",       "REQUEUE_HOLD",
                              "SPECIAL_EXIT", "RUNNING",   "RESV_DEL_HOLD",     "CONFIGURING",
                              "COMPLETING",   "SUSPENDED", "STOPPED",           "RESIZING",
                              "SIGNALING",    "STAGE_OUT", "A_WORD_OF_TOMORROW"};
const char* const kEnded[] = {"COMPLETED", "FAILED",    "CANCELLED",     "TIMEOUT", "NODE_FAIL",
                              "BOOT_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "REVOKED", "DEADLINE"};

}  // namespace

TEST_CASE("every state of Slurm is either alive or ended") {
  for (const auto* state : kAlive) CHECK_MESSAGE(is_alive(phase_of(state)), state);
  for (const auto* state : kEnded) CHECK_MESSAGE(!is_alive(phase_of(state)), state);
  CHECK(phase_of("CANCELLED by 1000") == SlurmPhase::cancelled);
  CHECK(phase_of("CANCELLED+") == SlurmPhase::cancelled);
  CHECK(phase_of("") == SlurmPhase::unknown);
}

TEST_CASE("a job that is not at Slurm is submitted, unless it was cancelled") {
  JobFacts facts;
  CHECK(next_step(facts).kind == Kind::submit);
  facts.cancelled = true;
  check_fails(facts, ErrorCode::conflict, "cancelled");
}

TEST_CASE("a job that lives is waited for, and cancelled where that was ordered") {
  for (const auto* state : kAlive) {
    auto facts = ended(state);
    CHECK_FALSE(needs_folder(facts));
    const bool held = std::string(state) == "REQUEUE_HOLD" || std::string(state) == "SPECIAL_EXIT";
    CHECK(next_step(facts).kind == (held ? Kind::replace : Kind::wait));
    facts.cancelled = true;
    CHECK(next_step(facts).kind == Kind::cancel);
  }
}

TEST_CASE("a job that Slurm begins again and again without a new chunk is given up") {
  auto facts = ended("PENDING");
  facts.stalled = 2;
  CHECK(next_step(facts).kind == Kind::wait);
  facts.stalled = 3;
  const auto step = next_step(facts);
  CHECK(step.kind == Kind::cancel_and_fail);
  CHECK(step.error.code == ErrorCode::unavailable);
}

TEST_CASE("whatever Slurm says, a living worker and a folder that may lag are waited for") {
  for (const auto* state : kEnded) {
    auto facts = ended(state);
    CHECK(needs_folder(facts));
    facts.lock_held = true;
    CHECK(next_step(facts).kind == Kind::wait);
    facts.lock_held = false;
    facts.settled = false;
    CHECK(next_step(facts).kind == Kind::wait);
  }
  auto gone = ended("");
  gone.known.reset();
  CHECK(needs_folder(gone));
  gone.lock_held = true;
  CHECK(next_step(gone).kind == Kind::wait);
}

TEST_CASE("an end after the daemon's order to cancel is a conflict, whatever it looks like") {
  for (const auto* state : kEnded) {
    auto facts = ended(state);
    facts.cancelled = true;
    check_fails(facts, ErrorCode::conflict, "cancelled");
  }
}

TEST_CASE("a lost node and a preemption are begun again while that helps") {
  for (const auto* state : {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"}) {
    auto facts = ended(state);
    CHECK(next_step(facts).kind == Kind::submit);
    facts.stalled = 2;
    check_fails(facts, ErrorCode::unavailable, state);
    facts.further = true;
    CHECK(next_step(facts).kind == Kind::submit);
  }
}

TEST_CASE("a time limit is begun again only by a job that got further") {
  auto facts = ended("TIMEOUT");
  facts.known->limit_s = 600;
  check_fails(facts, ErrorCode::deadline_exceeded, "time limit of 600 s");
  check_fails(facts, ErrorCode::deadline_exceeded, "raise slurm.time_limit_s");
  facts.further = true;
  facts.stalled = 9;
  CHECK(next_step(facts).kind == Kind::submit);
}

TEST_CASE("a worker that stopped in order is judged by how near its time limit was") {
  auto facts = ended("FAILED");
  facts.known->exit_code = 75;
  facts.known->limit_s = 3'600;
  facts.known->used_s = 3'520;
  check_fails(facts, ErrorCode::deadline_exceeded, "time limit of 3600 s");
  facts.known->used_s = 600;  // preempted, or told by a person
  CHECK(next_step(facts).kind == Kind::submit);
  facts.stalled = 2;
  check_fails(facts, ErrorCode::unavailable, "told it to stop");
  facts.further = true;
  CHECK(next_step(facts).kind == Kind::submit);
}

TEST_CASE("a job that was killed just before its time limit has reached it") {
  for (const auto& [exit_code, signal] : {std::pair(0, 15), std::pair(0, 9), std::pair(143, 0), std::pair(137, 0)}) {
    auto facts = ended("FAILED");
    facts.known->exit_code = exit_code;
    facts.known->signal = signal;
    facts.known->limit_s = 3'600;
    facts.known->used_s = 3'545;
    check_fails(facts, ErrorCode::deadline_exceeded, "time limit of 3600 s");
    facts.further = true;
    CHECK(next_step(facts).kind == Kind::submit);
    facts.known->used_s = 600;  // something else killed it
    check_fails(facts, ErrorCode::internal, "Slurm's job 12");
  }
}

TEST_CASE("a job that lost a rank begins again, whatever exit status srun made of it") {
  for (const int exit_code : {75, 137, 70}) {
    auto facts = ended("FAILED");
    facts.known->exit_code = exit_code;
    facts.lost_rank = "rank 2 of 4 did not respond";
    CHECK(next_step(facts).kind == Kind::submit);
    facts.stalled = 2;
    check_fails(facts, ErrorCode::unavailable, "the loss of one of its ranks (rank 2 of 4 did not respond)");
    facts.further = true;
    CHECK(next_step(facts).kind == Kind::submit);
  }
}

TEST_CASE("a job that Slurm holds back after a failed start is submitted anew, and at last given up") {
  for (const auto* reason : {"launch failed requeued held", "launch_failed_requeued_held"}) {
    auto facts = ended("PENDING");
    facts.known->reason = reason;
    CHECK(next_step(facts).kind == Kind::replace);
    facts.stalled = 2;
    const auto step = next_step(facts);
    CHECK(step.kind == Kind::cancel_and_fail);
    CHECK(step.error.code == ErrorCode::unavailable);
    CHECK_MESSAGE(step.error.message.find(reason) != std::string::npos, step.error.message);
  }
  auto facts = ended("PENDING");
  for (const auto* reason : {"JobHeldUser", "JobHeldAdmin", "Priority"}) {
    facts.known->reason = reason;
    CHECK(next_step(facts).kind == Kind::wait);
  }
}

TEST_CASE("a failure quotes the exit status and the last words") {
  auto facts = ended("FAILED");
  facts.known->exit_code = 127;
  facts.output = "driftgate: not found";
  check_fails(facts, ErrorCode::internal, "failed with exit status 127");
  check_fails(facts, ErrorCode::internal, "driftgate: not found");
  facts.known->exit_code = 0;
  facts.known->signal = 9;
  facts.known->reason = "JobLaunchFailure";
  check_fails(facts, ErrorCode::internal, "was ended by signal 9 (JobLaunchFailure)");
  facts.output.clear();
  check_fails(facts, ErrorCode::internal, "is read with driftgate jobs logs");
}

TEST_CASE("a full folder is named, however the job ended by it") {
  for (const auto* state : {"FAILED", "COMPLETED"}) {
    auto facts = ended(state);
    facts.folder_full = true;
    check_fails(facts, ErrorCode::storage_full, "no space is left for /shared/job");
  }
  auto facts = ended("");
  facts.known.reset();
  facts.folder_full = true;
  check_fails(facts, ErrorCode::storage_full, "/shared/job");
}

TEST_CASE("a job that Slurm cannot begin since its folder is full is not left to Slurm's patience") {
  auto facts = ended("PENDING");
  facts.folder_full = true;
  CHECK(next_step(facts).kind == Kind::wait);  // it has not begun: there may be room by then
  facts.known->reason = "BeginTime";
  CHECK(needs_folder(facts));
  auto step = next_step(facts);
  CHECK(step.kind == Kind::cancel_and_fail);
  CHECK(step.error.code == ErrorCode::storage_full);
  facts.folder_full = false;
  CHECK(next_step(facts).kind == Kind::wait);
  facts.known->reason = "Priority";
  facts.known->restarts = 1;
  facts.folder_full = true;
  CHECK(next_step(facts).kind == Kind::cancel_and_fail);
}

TEST_CASE("a worker that could not write is told from one that met the worker before it") {
  auto facts = ended("FAILED");
  facts.known->exit_code = 74;
  facts.output = "driftgate worker: cannot create /shared/job/result.json.tmp: Permission denied";
  check_fails(facts, ErrorCode::io, "cannot write in /shared/job");
  facts.output = "driftgate worker: /shared/job/lock is held by a live process";
  CHECK(next_step(facts).kind == Kind::submit);
  facts.stalled = 2;
  check_fails(facts, ErrorCode::unavailable, "locked by the worker before it");
}

TEST_CASE("a job that others cancelled, ran out of memory or is known no more ends with the reason") {
  check_fails(ended("CANCELLED"), ErrorCode::unavailable, "job 12 was cancelled, not by driftgate");
  check_fails(ended("CANCELLED by 1000"), ErrorCode::unavailable, "job 12 was cancelled by uid 1000");
  check_fails(ended("OUT_OF_MEMORY"), ErrorCode::limit_exceeded, "slurm.memory_bytes_per_rank");
  check_fails(ended("DEADLINE"), ErrorCode::deadline_exceeded, "deadline");
  check_fails(ended("COMPLETED"), ErrorCode::internal, "left no result");
  auto gone = ended("");
  gone.known.reset();
  check_fails(gone, ErrorCode::unavailable, "Slurm knows the job 12 no more");
}
