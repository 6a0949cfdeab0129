#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/jobs/job.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// The descriptor under which a runner hands its worker the locked lock file.
inline constexpr int kLockDescriptor = 3;
/// Set to "1" in a worker's environment when kLockDescriptor holds the lock already.
inline constexpr const char* kLockVariable = "DRIFTGATE_LOCK_HELD";
/// What a worker leaves, instead of a result, that could go on if it had not lost one of its ranks: the
/// reason.
inline constexpr const char* kLostRankFile = "lost-rank";
inline constexpr std::size_t kMaxResultBytes = 8u << 20;

/// The name of the folder of a job, below the folder of all jobs. That of a prefix of keys begins the names
/// of all of theirs.
[[nodiscard]] std::string job_folder_name(std::string_view key);

class JobFolder;
/// The key of the job whose folder this is, by its spec.json; "" when it says none that belongs to the folder.
[[nodiscard]] std::string key_in(const JobFolder& folder);

/// The files of one job (docs/design/pipeline.md, "Where work runs"): spec.json, lock (flock = alive), pid,
/// group (of an adapter), progress.jsonl, log, result.json.
class JobFolder {
 public:
  explicit JobFolder(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }

  /// Writes a file so that it is either absent or whole: temporary file, fsync, rename, fsync of the folder.
  [[nodiscard]] schema::Result<void> put(std::string_view name, std::string_view bytes) const;
  /// `put`, and names the file and its digest in `result`.
  [[nodiscard]] schema::Result<void> put_result(JobResult& result, const std::string& name,
                                                const std::string& file_name, std::string_view bytes) const;
  /// The bytes of a file, at most kMaxResultBytes; `not_found` when it is absent.
  [[nodiscard]] schema::Result<std::string> get(std::string_view name) const;
  /// Part of a file from a byte on.
  struct Part {
    std::uint64_t from = 0, next = 0;  ///< its first byte, and the byte after its last
    std::uint64_t size = 0;            ///< of the file
    std::string text{};                ///< UTF-8; what is none is replaced
  };
  /// At most `limit` bytes from `offset` on, or, without one, the last of the file. A character that is cut
  /// by the end of the part is left for the next one. `not_found` when the file is absent.
  [[nodiscard]] schema::Result<Part> part(std::string_view name, std::optional<std::uint64_t> offset,
                                          std::size_t limit) const;
  /// The files in which programs of this job have printed: "log", then "slurm-ID.out" of each submission,
  /// oldest first. Only those that are there.
  [[nodiscard]] std::vector<std::string> printed() const;
  /// Appends to a file; failures are ignored: what is printed is for people only.
  void append(std::string_view name, std::string_view bytes) const;

  /// Appends a line to progress.jsonl; failures are ignored, since progress is for people only.
  void report(const JobProgress& progress) const;
  [[nodiscard]] std::optional<JobProgress> progress() const;

  /// Opens `lock` and locks it without waiting; `conflict` when a live process holds it.
  [[nodiscard]] schema::Result<base::UniqueFd> lock() const;
  /// True when no live process holds the lock.
  [[nodiscard]] bool lock_is_free() const;
  /// The number in `pid` or `group`, 0 when there is none.
  [[nodiscard]] int number_in(std::string_view name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace driftgate::jobs
