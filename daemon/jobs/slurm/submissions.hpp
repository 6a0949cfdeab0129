#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/jobs/job_folder.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// One time that a job was given to Slurm.
struct Submission {
  std::string id;
  std::int64_t submitted_us = 0;
  std::string state{}, reason{}, nodes{};  ///< as Slurm said last
  std::uint32_t restarts = 0;              ///< that Slurm itself made of it
  int exit_code = 0, signal = 0;           ///< as in QueuedJob, when Slurm said last
  std::int64_t used_s = 0, limit_s = 0;    ///< so too
  bool superseded = false;  ///< another one counts instead: it was cancelled, and is not judged
  bool operator==(const Submission&) const = default;
};

/// `slurm.json` of a job's folder: what the daemon must know of the job after a restart.
struct SubmissionRecord {
  std::vector<Submission> submissions;  ///< the oldest first
  std::uint64_t measured_bytes = 0;     ///< of complete chunks, when the job began last
  std::uint32_t stalled = 0;  ///< beginnings in a row, after the first, before which nothing was added
  bool cancelled = false;     ///< by this daemon's orders
  std::optional<schema::Error> ended;  ///< the error it ended with, when there is no result.json
  bool operator==(const SubmissionRecord& other) const;
};
/// The newest submission that counts; null where there is none.
[[nodiscard]] const Submission* newest(const SubmissionRecord& record);
[[nodiscard]] std::string to_json(const SubmissionRecord& record);
[[nodiscard]] schema::Result<SubmissionRecord> submission_record_from_json(std::string_view text);

/// The folder's record; an empty one where there is no slurm.json yet. `corrupt` for a file that is none.
[[nodiscard]] schema::Result<SubmissionRecord> read_submissions(const JobFolder& folder);
/// Bytes of the chunks that ranks have finished measuring.
[[nodiscard]] std::uint64_t measured_bytes(const JobFolder& folder);
/// Where the job is by its record alone.
[[nodiscard]] JobPlace place_of(const SubmissionRecord& record);

inline constexpr const char* kSubmissionsFile = "slurm.json";
inline constexpr const char* kBatchFile = "batch.sh";

}  // namespace driftgate::jobs
