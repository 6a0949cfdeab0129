#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/chunks/chunking.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::uint32_t kDescribedMinSequences = 10;
inline constexpr std::size_t kMaxDescribedSlices = 1'000;
inline constexpr std::size_t kMaxWorstRows = 10'000;

using SliceAttributes = std::map<std::string, std::string>;

struct MeasureOptions {
  std::string device = "cpu";  ///< "cpu", "cuda", "cuda:N"
  std::uint32_t threads = 0;   ///< 0: one for each processor
  std::uint32_t top_k = 10;
  std::uint32_t metrics =
      DRIFTGATE_METRICS_ALL;          ///< or DRIFTGATE_METRICS_CORE; other figures then have n = 0
  double ppo_clip = 0.2;              ///< c of the clip range [1 − c, 1 + c] of clip_budget_used
  std::optional<double> is_clip;      ///< the importance-sampling clip of link 5 of the bound chain
  std::vector<Threshold> thresholds;  ///< each sequence counts its rows beyond them
  /// Slices that get histograms besides the whole corpus; absent: `described_slices` of the corpus.
  std::optional<std::vector<SliceAttributes>> slices;
  std::uint32_t top_rows = 20;  ///< worst rows to keep, at most kMaxWorstRows
  Chunking chunking{};          ///< whole distributions only: captures of other modes are measured in one go
};

/// Called between batches by the calling thread with the number of measured rows and of all rows.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
/// Receives the figures of consecutive rows, in row order; an error that it returns ends the measurement.
using RowSink =
    std::function<schema::Result<void>(std::uint64_t first_row, std::span<const driftgate_row> rows)>;

/// Measures the drift between two captures: every figure of docs/design/measurement.md, "Figures of one row",
/// collected into the table of its section "The measurement table". `corpus` may be null. A row with NaN or
/// infinite logits is counted in `nonfinite`, is listed among the worst rows and has no other figure, so that
/// it cannot be averaged away. Errors: not_comparable (see check_comparable; also a sequence that the corpus
/// does not contain), invalid_capture (a row without any finite logit, a masked target token), and those of
/// Backend::open.
[[nodiscard]] schema::Result<MeasurementTable> measure(const Capture& train, const Capture& inf,
                                                       const Corpus* corpus, const MeasureOptions& options,
                                                       const Progress& progress = {},
                                                       const RowSink& sink = {});

/// Log-probabilities of one target token by both kernels.
struct TargetTokenPair {
  std::int64_t sequence = 0;
  double log_p = 0, log_q = 0;  ///< by K_train (or the reference) and by K_inf, in nats
};

/// What holds for all pairs of one call of `measure_target_tokens`.
struct TargetTokenContext {
  CaptureIdentity train, inf;
  double ppo_clip = 0.2;
  std::optional<double> is_clip;
  std::vector<Threshold> thresholds;
  const Corpus* corpus = nullptr;  ///< attributes of the sequences; need not contain all of them
};

/// The measurement table of pairs of log-probabilities: logprob_train, logprob_inf, log_ratio and the sums of
/// docs/design/measurement.md, "Figures of target tokens"; every other metric has n = 0. Pairs with an
/// unknown log-probability (not finite, or −9999 and below) are left out, because unknown is not zero, so
/// that `rows` may be less than pairs.size(). Errors: invalid_argument for a log-probability that exceeds 0
/// by more than rounding.
[[nodiscard]] schema::Result<MeasurementTable> measure_target_tokens(std::span<const TargetTokenPair> pairs,
                                                                     const TargetTokenContext& context);

/// The value that stands for a slice key which a sequence lacks.
inline constexpr const char* kMissingSliceValue = "(missing)";
/// Whether a sequence belongs to a slice.
[[nodiscard]] bool in_slice(const SequenceInfo& info, const SliceAttributes& where);
/// The slices that are reported by default: every value of every key, then of every pair of keys, that has at
/// least `least` sequences. Sorted, single keys first, at most kMaxDescribedSlices.
[[nodiscard]] std::vector<SliceAttributes> described_slices(const std::vector<SequenceInfo>& infos,
                                                            std::uint32_t least = kDescribedMinSequences);

}  // namespace driftgate::gpu
