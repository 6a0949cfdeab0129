#include "daemon/jobs/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/jobs/kept_chunks.hpp"
#include "daemon/jobs/program.hpp"
#include "daemon/jobs/termination.hpp"
#include "gpu/ranks/collective.hpp"
#include "gpu/ranks/collective_loader.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr int kExitIo = 74;       // EX_IOERR of sysexits.h
constexpr int kExitRanks = 70;    // EX_SOFTWARE
constexpr int kExitStopped = 75;  // EX_TEMPFAIL
constexpr const char* kResultFile = "result.json";
/// A launcher ends its processes when one of them died, so that SIGTERM and the loss of that one come
/// together. One that came earlier is the reason for what fails after it.
constexpr std::chrono::milliseconds kLauncherTime{1'000};

/// The fence for exceptions: running out of memory under RLIMIT_AS is the usual one.
template <typename Work>
auto fenced(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return schema::fail(ErrorCode::limit_exceeded,
                        "the job needs more memory than its limit allows; raise jobs.memory_limit_bytes");
  } catch (const std::exception& fault) {
    return schema::fail(ErrorCode::internal,
                        fmt::format("the job failed by a bug in driftgate: {}", fault.what()));
  }
}

/// On a cluster it is Slurm that limits memory and time, by what the job was given there. A worker of a
/// daemon that is itself a job of Slurm has a cleared environment.
bool is_slurm_job() {
  return std::getenv("SLURM_JOB_ID") != nullptr;
}

JobLimits limits_here(const JobSpec& spec) {
  auto limits = spec.limits;
  if (is_slurm_job()) limits.address_space_bytes = limits.cpu_seconds = 0;
  return limits;
}

schema::Result<JobResult> run_other(const JobSpec& spec, const JobFolder& folder) {
  const auto limits = limits_here(spec);
  if (spec.kind == JobKind::capture) {
    const auto payload = TRY(capture_payload_from_json(spec.payload));
    return run_capture(payload, limits, folder);
  }
  set_limit(RLIMIT_AS, limits.address_space_bytes);
  set_limit(RLIMIT_CPU, limits.cpu_seconds);
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that an engine may have closed
  const auto payload = TRY(rescore_payload_from_json(spec.payload));
  return run_rescore(payload, folder);
}

/// The lock as inherited from the runner, or taken here when the worker is started by hand.
schema::Result<base::UniqueFd> hold_lock(const JobFolder& folder) {
  if (std::getenv(kLockVariable) != nullptr && ::fcntl(kLockDescriptor, F_SETFD, FD_CLOEXEC) == 0) {
    return base::UniqueFd(kLockDescriptor);
  }
  auto lock = folder.lock();
  if (!lock) return lock;
  TRY(folder.put("pid", std::to_string(::getpid())));
  return lock;
}

int complain(const schema::Error& error) {
  fmt::print(stderr, "driftgate worker: {}\n", error.describe());
  std::fflush(stderr);
  return kExitIo;
}

/// Writes the result and returns the exit status.
int put_result(const JobFolder& folder, JobResult result, std::chrono::steady_clock::time_point start) {
  result.wall_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  const auto written = folder.put(kResultFile, to_json(result));
  return written ? 0 : complain(written.error());
}

/// Of a rank that died, or that could not be heard any more.
bool is_loss_of_rank(const schema::Error& error) {
  const bool gone = error.code == ErrorCode::unavailable || error.code == ErrorCode::deadline_exceeded;
  return gone && gpu::rank_of(error).has_value();
}

/// A drift job on one rank, on threads, or as one rank of an MPI job.
class RankedWorker {
 public:
  RankedWorker(const JobFolder& folder, const JobSpec& spec) : folder_(folder), spec_(spec) {}

  int run() {
    limit();
    // Before MPI, which else takes SIGTERM for the loss of a rank in whatever wait it meets.
    record_termination();
    auto ranks = start();
    if (!ranks) return alone(ranks.error());
    if (ranks->root()) {
      auto lock = hold_lock(folder_);
      if (!lock) return broken(*ranks, lock.error(), complain(lock.error()));
      lock_ = std::move(*lock);
      std::error_code none;
      std::filesystem::remove(folder_.file(kLostRankFile), none);
    }
    auto done = fenced([&] { return measure(*ranks); });
    if (done) return finish(*ranks, *done ? put_measured(std::move(**done)) : 0);
    if (gpu::is_interruption(done.error())) return finish(*ranks, stopped(*ranks));
    if (terminated_before(kLauncherTime)) {
      complain(done.error());
      return broken(*ranks, done.error(), kExitStopped);
    }
    if (!ranks->root()) {
      if (ranks->reports(done.error())) complain(done.error());
      return broken(*ranks, done.error(), kExitRanks);
    }
    if (spec_.ranks > 1 && is_slurm_job() && is_loss_of_rank(done.error())) return lost(*ranks, done.error());
    const int written = put_result(folder_, failed(done.error()), start_);
    return broken(*ranks, done.error(), written);
  }

 private:
  /// CUDA reserves far more address space than it uses, so that no limit of it can be set there.
  void limit() const {
    const auto limits = limits_here(spec_);
    const auto payload = drift_payload_from_json(spec_.payload);
    const bool cuda = payload && payload->device.starts_with("cuda");
    if (!cuda) set_limit(RLIMIT_AS, limits.address_space_bytes);
    set_limit(RLIMIT_CPU, limits.cpu_seconds);
  }

  schema::Result<gpu::RankSession> start() {
    payload_ = TRY(drift_payload_from_json(spec_.payload));
    auto request = TRY(ranks_of(payload_, spec_.ranks));
    // A launcher's variables may be those of the daemon that started this worker.
    if (spec_.ranks == 1 && gpu::launched_size() == 1) request.exchange = "threads";
    return gpu::RankSession::start(request);
  }

  schema::Result<std::optional<JobResult>> measure(gpu::RankSession& ranks) {
    return run_drift(payload_, folder_, {ranks, what_is_measured(), [] { return terminated(); }});
  }

  /// Without what belongs to one attempt: the next one takes over the chunks of the one before.
  [[nodiscard]] std::string what_is_measured() const {
    JobSpec spec;
    spec.payload = spec_.payload;
    spec.ranks = spec_.ranks;
    return to_json(spec);
  }

  /// Chunks go once the result is there, and not before.
  int put_measured(JobResult result) {
    const int written = put_result(folder_, std::move(result), start_);
    if (written == 0) KeptChunks(folder_, "").clear();
    return written;
  }

  /// Without ranks: whoever gets the lock says so in the result.
  int alone(const schema::Error& error) {
    complain(error);
    const auto lock = hold_lock(folder_);
    if (!lock) return complain(lock.error());
    const int written = put_result(folder_, failed(error), start_);
    // The other ranks wait for this one until their launcher ends them.
    return written == 0 && spec_.ranks > 1 ? kExitRanks : written;
  }

  /// Most often its node failed, which Slurm finds out minutes later. What was measured is kept, and the
  /// runner decides whether the job begins again. It reads of the loss in a file: which of the ranks' exit
  /// statuses Slurm takes for the job's nobody can say.
  int lost(gpu::RankSession& ranks, const schema::Error& error) {
    complain(error);
    (void)folder_.put(kLostRankFile, error.describe());
    return broken(ranks, error, kExitStopped);
  }

  int stopped(const gpu::RankSession& ranks) const {
    if (ranks.root()) {
      fmt::print(stderr, "driftgate worker: told to stop by SIGTERM; what was measured is kept in {}\n",
                 folder_.file(kChunksFolder));
    }
    return kExitStopped;
  }

  int finish(gpu::RankSession& ranks, int exit_code) {
    return ranks.end(exit_code, kExitRanks, [](const schema::Error& error) { complain(error); });
  }

  /// Ends the other ranks too. With one process the exit status stays as it is.
  int broken(gpu::RankSession& ranks, const schema::Error& error, int exit_code) {
    ranks.fail(error);
    return finish(ranks, exit_code);
  }

  const JobFolder& folder_;
  const JobSpec& spec_;
  DriftPayload payload_;
  base::UniqueFd lock_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

schema::Result<std::string> file_digest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return schema::fail(ErrorCode::not_found, fmt::format("cannot open {}", path));
  schema::Sha256 hash;
  std::vector<char> buffer(1u << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (file.bad()) return schema::fail(ErrorCode::io, fmt::format("cannot read {}", path));
  return schema::digest_text(hash.finish());
}

int run_worker(const std::string& job_folder) {
  const JobFolder folder(job_folder);
  // Started again after it had finished: a requeued job, or a rank of one.
  if (folder.get(kResultFile)) return 0;
  const auto text = folder.get("spec.json");
  const auto spec = text ? job_spec_from_json(*text) : std::unexpected(text.error());
  if (spec && spec->kind == JobKind::drift) return RankedWorker(folder, *spec).run();
  const auto lock = hold_lock(folder);
  if (!lock) return complain(lock.error());
  const auto start = std::chrono::steady_clock::now();
  auto done = fenced([&]() -> schema::Result<JobResult> {
    const auto known = TRY(spec);
    return run_other(known, folder);
  });
  return put_result(folder, done ? std::move(*done) : failed(std::move(done).error()), start);
}

}  // namespace driftgate::jobs
