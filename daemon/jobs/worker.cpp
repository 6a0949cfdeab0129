#include "daemon/jobs/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <vector>

#include "daemon/jobs/program.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr int kExitIo = 74;  // EX_IOERR of sysexits.h

schema::Result<JobResult> run(const JobFolder& folder) {
  const auto text = TRY(folder.get("spec.json"));
  const auto spec = TRY(job_spec_from_json(text));
  if (spec.kind == JobKind::capture) {
    const auto payload = TRY(capture_payload_from_json(spec.payload));
    return run_capture(payload, spec.limits, folder);
  }
  set_limit(RLIMIT_AS, spec.limits.address_space_bytes);
  set_limit(RLIMIT_CPU, spec.limits.cpu_seconds);
  if (spec.kind == JobKind::drift) {
    const auto payload = TRY(drift_payload_from_json(spec.payload));
    return run_drift(payload, folder);
  }
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that an engine may have closed
  const auto payload = TRY(rescore_payload_from_json(spec.payload));
  return run_rescore(payload, folder);
}

/// The fence for exceptions: running out of memory under RLIMIT_AS is the usual one.
JobResult run_fenced(const JobFolder& folder) {
  try {
    auto done = run(folder);
    return done ? std::move(*done) : failed(std::move(done).error());
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::limit_exceeded,
                  "the job needs more memory than its limit allows; raise jobs.memory_bytes");
  } catch (const std::exception& fault) {
    return failed(ErrorCode::internal, fmt::format("the job failed by a bug in driftgate: {}", fault.what()));
  }
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
  const auto lock = hold_lock(folder);
  if (!lock) {
    fmt::print(stderr, "driftgate worker: {}\n", lock.error().describe());
    return kExitIo;
  }
  const auto start = std::chrono::steady_clock::now();
  auto result = run_fenced(folder);
  result.wall_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  const auto written = folder.put("result.json", to_json(result));
  if (!written) {
    fmt::print(stderr, "driftgate worker: {}\n", written.error().describe());
    return kExitIo;
  }
  return 0;
}

}  // namespace driftgate::jobs
