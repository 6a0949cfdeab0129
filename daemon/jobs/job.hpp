#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::jobs {

enum class JobKind : std::uint8_t { drift, capture, rescore };
[[nodiscard]] std::string_view to_string(JobKind kind);
[[nodiscard]] std::optional<JobKind> kind_from_name(std::string_view name);

/// Limits that a worker and its children run under. A value of 0 means the limit is not set.
struct JobLimits {
  std::uint64_t address_space_bytes = 0;
  std::uint64_t cpu_seconds = 0;
  std::int64_t wall_ms = 3'600'000;
  std::uint64_t output_bytes = 1'048'576;  ///< of an adapter's stdout and stderr together; more is cut
};

/// What `spec.json` of a job's folder says. `payload` is the kind's own JSON object (see worker.hpp).
struct JobSpec {
  std::string key;  ///< "promotion/stage/attempt/step": doing it twice changes nothing
  JobKind kind{};
  JobLimits limits;
  std::string payload;
  std::uint32_t ranks = 1;  ///< that measure together, 1 to kMaxRanks; spec.json has it where it is not 1
};
inline constexpr std::uint32_t kMaxRanks = 4'096;
[[nodiscard]] std::string to_json(const JobSpec& spec);
[[nodiscard]] schema::Result<JobSpec> job_spec_from_json(std::string_view json);

/// What `result.json` says. On success `summary` is the kind's JSON object and `files` maps a name
/// ("table", "pairs", "capture") to a file in the job's folder; `digests` has "sha256:…" of each.
struct JobResult {
  bool ok = false;
  std::optional<schema::Error> error;
  std::string summary;  ///< JSON object; "{}" when there is nothing to say
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> digests;  ///< of inputs ("train", "inf", "corpus") and files
  std::int64_t wall_ms = 0;
};
[[nodiscard]] std::string to_json(const JobResult& result);
[[nodiscard]] schema::Result<JobResult> job_result_from_json(std::string_view json);
/// The result of a job that failed.
[[nodiscard]] JobResult failed(schema::Error error);
[[nodiscard]] JobResult failed(schema::ErrorCode code, std::string message);

/// How far a running job is, from the last line of its progress.jsonl.
struct JobProgress {
  std::uint64_t done = 0, total = 0;
  std::string unit, text;
};

/// Where a job is.
struct JobPlace {
  std::string runner;  ///< "local" or "slurm"
  std::string remote;  ///< Slurm's number of the job, or the process's; "" before it has one
  std::string state;   ///< "waiting" (in the daemon), "queued" (at Slurm), "running" or "ended"
  std::string reason;  ///< of a wait or of an end, in Slurm's words: "Priority"; "" when there is none
  std::string nodes;   ///< that Slurm gave it, as Slurm writes them: "node[1-3]"; "" when unknown
  std::vector<std::string> submissions{};  ///< Slurm's numbers of all submissions, the oldest first
  bool operator==(const JobPlace&) const = default;
};

/// A finished job, reported once on a thread of the runner.
struct JobDone {
  std::string key;
  JobResult result;
  std::optional<JobPlace> place{};  ///< where it ran, when that is known
  std::string folder{};             ///< of its files, when it is not the one that `folder` says
};

/// What becomes of a job whose folder a process before this one left.
enum class JobFate : std::uint8_t {
  keep,    ///< it is open, or nobody here knows it
  cancel,  ///< it has ended for the pipeline: what still runs is ended, its folder stays
  forget   ///< its promotion has ended: its folder goes too
};
using FateOf = std::function<JobFate(const std::string& key)>;

/// Runs jobs outside the daemon's process. The pipeline knows only this, tests use a fake.
class JobRunner {
 public:
  virtual ~JobRunner() = default;
  /// Receives finished jobs; set before the first start. An empty one ends it: none runs after its
  /// return.
  virtual void on_done(std::function<void(JobDone)> callback) = 0;
  /// Starts the job, or adopts the one that a process before this one started under the same key, or
  /// reports its stored result again. Returns at once; a full queue is `unavailable`.
  virtual schema::Result<void> start(const JobSpec& spec) = 0;
  /// Ends the job if it waits or runs: a process group is killed, a job of Slurm is cancelled. It then ends
  /// with `conflict`; no callback is lost.
  virtual void cancel(const std::string& key) = 0;
  [[nodiscard]] virtual std::optional<JobProgress> progress(const std::string& key) = 0;
  /// Where the job is; nothing for a job that this runner does not know.
  [[nodiscard]] virtual std::optional<JobPlace> place(const std::string& key) = 0;
  /// Deletes the folders of all jobs whose key starts with `prefix`; running ones are cancelled.
  virtual void forget(const std::string& prefix) = 0;
  /// Asks for the fate of each job whose folder is there and which was not started since, and carries it out:
  /// orders that the process before this one could not give any more. `fate_of` may be called later, on a
  /// thread of the runner.
  virtual void drop_left(FateOf fate_of) = 0;
  [[nodiscard]] virtual std::size_t running() const = 0;
  /// Folder of the files of a job that starts now: absolute path. Looks at no disk.
  [[nodiscard]] virtual std::string folder(const std::string& key) const = 0;
};

}  // namespace driftgate::jobs
