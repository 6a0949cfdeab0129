#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/capture_check.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/job.hpp"
#include "daemon/jobs/job_folder.hpp"
#include "daemon/net/outgoing.hpp"
#include "gpu/chunks/chunking.hpp"
#include "gpu/ranks/rank_session.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// The body of `driftgate worker JOBDIR`: locks the folder, reads spec.json, does the job and renames
/// result.json into place. 0 when a result was written, success or not, by this call or by one before; 74
/// when none could be. A drift job that is told to end (SIGTERM) stops at its next chunk, keeps what it
/// measured and returns 75 without a result. In an MPI job every process calls this and is a rank of the
/// drift job; rank 0 holds the lock and writes the files, and when a rank fails the others return 70, or are
/// ended with the MPI job.
[[nodiscard]] int run_worker(const std::string& job_folder);

/// Payload of a drift job: measures `inf` against `train`, and the noise floors that it names. Files:
/// "table", "floor_train", "floor_inf" (gpu::serialise). Digests: train, inf, corpus, table; of each floor
/// its table and "floor_train_first", "floor_train_second". Summary: {"rows", "sequences", "nonfinite_rows",
/// "train_kernel", "inf_kernel"}, and of several ranks {"ranks", "shard", "shard_reason"}.
struct DriftPayload {
  /// Two captures of one kernel.
  struct FloorPair {
    std::string first, second;
    bool operator==(const FloorPair&) const = default;
  };
  std::string train, inf, corpus;  ///< paths below `roots`; corpus may be empty
  std::string contract;            ///< canonical JSON
  std::vector<std::string> roots;
  std::uint32_t threads = 0;      ///< 0 = all cores
  std::uint32_t worst_rows = 10;  ///< kept in the table
  std::optional<FloorPair> floor_train{}, floor_inf{};
  std::string device = "cpu";                    ///< of the ranks: cpu, cuda, cuda:all, cuda:N,M
  std::string exchange = "auto";                 ///< between ranks: auto, threads, mpi, nccl
  std::string shard = "auto";                    ///< how ranks share the work: auto, rows, vocab
  std::uint64_t chunk_bytes = gpu::kChunkBytes;  ///< of the logits in a chunk
  /// Checked before anything is measured; absent: captures of anything are compared.
  std::optional<CapturesOf> captures_of{};
};
[[nodiscard]] std::string to_json(const DriftPayload& payload);
[[nodiscard]] schema::Result<DriftPayload> drift_payload_from_json(std::string_view json);

/// Payload of a capture job: runs an adapter. "{out}" in a word stands for the capture's path in the job's
/// folder. Files: "capture". Digests: adapter (of the program), capture. Summary: {"output", "output_cut"}.
struct CapturePayload {
  std::string adapter;
  std::vector<std::string> argv;
};
[[nodiscard]] std::string to_json(const CapturePayload& payload);
[[nodiscard]] schema::Result<CapturePayload> capture_payload_from_json(std::string_view json);
inline constexpr const char* kCaptureFile = "capture.safetensors";

/// Payload of a rescore job: the pairs of a shadow stage. Files: "pairs" (JSON Lines, see shadow_pairs.hpp),
/// "table" (gpu::serialise of the target tokens; absent when nothing could be rescored).
/// Where both engines can score given tokens, the candidate's answers are scored by both. Else both are asked
/// the mirrored requests again, greedily, and their answers are compared up to the first different token.
/// With `compare_greedy` that is done in either case, on one request of each sticky key, and the candidate is
/// asked some of them alone and in a batch, as the noise floor. Summary: {"pairs", "wanted": pairs that were
/// asked for log-probabilities, "with_logprobs": of these, that came with them, "can_rescore", "no_logprobs":
/// why none were wanted, or "", "unlisted_tokens": pairs of greedy answers that were left out since an engine
/// lists fewer tokens than it generated, "notes": […]}.
struct RescorePayload {
  struct Side {
    std::string url, model, kernel;
    Scoring scoring = Scoring::none;            ///< how it scores given tokens
    bool token_ids = false;                     ///< takes prompts as token ids
    LogprobsBy logprobs_by = LogprobsBy::none;  ///< how completions are asked for log-probabilities
    bool chat_logprobs = false;                 ///< chat completions give them
    base::EngineAccess access{};                ///< files; the worker reads them
  };
  std::string spool;  ///< path of the spool file
  Side incumbent, candidate;
  std::string checkpoint;            ///< digest, for the table
  std::string contract;              ///< canonical JSON: clips and thresholds
  std::uint32_t max_rescored = 256;  ///< most pairs that are rescored, chosen by `seed`
  std::uint32_t batch_prompts = 0;   ///< most prompts that are sent alone and in a batch; 0 = none
  bool compare_greedy = false;       ///< a clause is about greedy answers
  std::uint64_t seed = 0;
  net::OutgoingPolicy outgoing;
};
[[nodiscard]] std::string to_json(const RescorePayload& payload);
[[nodiscard]] schema::Result<RescorePayload> rescore_payload_from_json(std::string_view json);

/// What a drift job runs with.
struct DriftRun {
  gpu::RankSession& ranks;
  std::string spec;              ///< what is measured: chunks of anything else are not taken over
  std::function<bool()> stop{};  ///< asked before each chunk; then the job ends with gpu::interrupted
};
/// What the payload and the number of ranks ask for. Errors: invalid_argument for a word that is none of
/// those above.
[[nodiscard]] schema::Result<gpu::SessionRequest> ranks_of(const DriftPayload& payload, std::uint32_t ranks);

/// The three kinds. Files and progress are written to `folder`. Ranks other than 0 write nothing but chunks,
/// and return nothing.
[[nodiscard]] schema::Result<std::optional<JobResult>> run_drift(const DriftPayload& payload,
                                                                 const JobFolder& folder,
                                                                 const DriftRun& run);
[[nodiscard]] schema::Result<JobResult> run_capture(const CapturePayload& payload, const JobLimits& limits,
                                                    const JobFolder& folder);
[[nodiscard]] schema::Result<JobResult> run_rescore(const RescorePayload& payload, const JobFolder& folder);

/// "sha256:…" of a file's bytes.
[[nodiscard]] schema::Result<std::string> file_digest(const std::string& path);

}  // namespace driftgate::jobs
