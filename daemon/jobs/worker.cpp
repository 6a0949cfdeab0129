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
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/jobs/kept_chunks.hpp"
#include "daemon/jobs/program.hpp"
#include "daemon/jobs/termination.hpp"
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

schema::Result<JobResult> run_other(const JobSpec& spec, const JobFolder& folder) {
  if (spec.kind == JobKind::capture) {
    const auto payload = TRY(capture_payload_from_json(spec.payload));
    return run_capture(payload, spec.limits, folder);
  }
  set_limit(RLIMIT_AS, spec.limits.address_space_bytes);
  set_limit(RLIMIT_CPU, spec.limits.cpu_seconds);
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

/// A drift job on one rank, on threads, or as one rank of an MPI job.
class RankedWorker {
 public:
  RankedWorker(const JobFolder& folder, const JobSpec& spec, std::string text)
      : folder_(folder), spec_(spec), text_(std::move(text)) {}

  int run() {
    set_limit(RLIMIT_AS, spec_.limits.address_space_bytes);
    set_limit(RLIMIT_CPU, spec_.limits.cpu_seconds);
    // Before MPI, which else takes SIGTERM for the loss of a rank in whatever wait it meets.
    record_termination();
    auto ranks = start();
    if (!ranks) return alone(ranks.error());
    if (ranks->root()) {
      auto lock = hold_lock(folder_);
      if (!lock) return broken(*ranks, lock.error(), complain(lock.error()));
      lock_ = std::move(*lock);
    }
    auto done = fenced([&] { return measure(*ranks); });
    if (done) return finish(*ranks, *done ? put_result(folder_, std::move(**done), start_) : 0);
    if (gpu::is_interruption(done.error())) return finish(*ranks, stopped(*ranks));
    if (terminated_before(kLauncherTime)) {
      complain(done.error());
      return broken(*ranks, done.error(), kExitStopped);
    }
    if (!ranks->root()) {
      if (ranks->reports(done.error())) complain(done.error());
      return broken(*ranks, done.error(), kExitRanks);
    }
    const int written = put_result(folder_, failed(done.error()), start_);
    return broken(*ranks, done.error(), written);
  }

 private:
  schema::Result<gpu::RankSession> start() {
    payload_ = TRY(drift_payload_from_json(spec_.payload));
    auto request = TRY(ranks_of(payload_, spec_.ranks));
    // A launcher's variables may be those of the daemon that started this worker.
    if (spec_.ranks == 1 && gpu::launched_size() == 1) request.exchange = "threads";
    return gpu::RankSession::start(request);
  }

  schema::Result<std::optional<JobResult>> measure(gpu::RankSession& ranks) {
    return run_drift(payload_, folder_, {ranks, text_, [] { return terminated(); }});
  }

  /// Without ranks: whoever gets the lock says so in the result.
  int alone(const schema::Error& error) {
    complain(error);
    const auto lock = hold_lock(folder_);
    return lock ? put_result(folder_, failed(error), start_) : complain(lock.error());
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
  std::string text_;
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
  if (spec && spec->kind == JobKind::drift) return RankedWorker(folder, *spec, *text).run();
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
