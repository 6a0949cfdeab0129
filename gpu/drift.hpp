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
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::uint32_t kDescribedMinSequences = 10;
inline constexpr std::size_t kMaxDescribedSlices = 1'000;
inline constexpr std::size_t kMaxWorstRows = 10'000;

using SliceAttributes = std::map<std::string, std::string>;

struct MeasureOptions {
  std::string device = "cpu";  ///< "cpu", "cuda", "cuda:N"
  std::uint32_t threads = 0;   ///< 0 = one for each processor
  std::uint32_t top_k = 10;
  std::uint32_t metrics = DRIFTGATE_METRICS_ALL;  ///< or _CORE: the other figures then have n = 0
  double ppo_clip = 0.2;
  std::optional<double> is_clip;
  std::vector<Threshold> thresholds;  ///< counted for each sequence
  /// Slices to histogram beside the corpus; absent = `described_slices` of the corpus.
  std::optional<std::vector<SliceAttributes>> slices;
  std::uint32_t top_rows = 20;  ///< worst rows to keep, at most kMaxWorstRows
};

/// Rows done and rows in all; called between batches by the calling thread.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
/// Receives the figures of consecutive rows in row order; an error ends the measurement.
using RowSink =
    std::function<schema::Result<void>(std::uint64_t first_row, std::span<const driftgate_row> rows)>;

/// Measures the drift between two captures: every figure of docs/design/measurement.md, "Figures of one row",
/// gathered into the table of "The measurement table". `corpus` may be null. A row with NaN or infinite
/// logits is counted, listed among the worst rows and leaves the other metrics' moments; it is never averaged
/// away, since `nonfinite` says so. Errors: not_comparable, invalid_capture (a row without any finite logit,
/// a realised token that is masked, a sequence that the corpus does not know), what Backend::open says.
[[nodiscard]] schema::Result<MeasurementTable> measure(const Capture& train, const Capture& inf,
                                                       const Corpus* corpus, const MeasureOptions& options,
                                                       const Progress& progress = {},
                                                       const RowSink& sink = {});

/// A realised token that both kernels scored.
struct RealisedPair {
  std::int64_t sequence = 0;
  double log_p = 0, log_q = 0;  ///< K_train (or the reference) and K_inf
};

/// What is known of realised pairs beside the pairs.
struct RealisedContext {
  CaptureIdentity train, inf;
  double ppo_clip = 0.2;
  std::optional<double> is_clip;
  std::vector<Threshold> thresholds;
  const Corpus* corpus = nullptr;  ///< attributes of the sequences; may know only some of them
};

/// The table of pairs of log-probabilities: logprob_train, logprob_inf, log_ratio and the realised sums;
/// every other metric has n = 0. A log-probability that is not finite or −9999 and below is unknown and
/// its pair is left out (unknown is not zero), so `rows` may be less than pairs.size(). Errors:
/// invalid_argument for a log-probability over 0 by more than rounding.
[[nodiscard]] schema::Result<MeasurementTable> measure_realised(std::span<const RealisedPair> pairs,
                                                                const RealisedContext& context);

/// Value of a slice's key for sequences that lack it.
inline constexpr const char* kMissingSliceValue = "(missing)";
/// Whether a sequence belongs to a slice.
[[nodiscard]] bool in_slice(const SequenceInfo& info, const SliceAttributes& where);
/// Every value of every key, then of every pair of keys, with at least `least` sequences, in sorted
/// order; at most kMaxDescribedSlices, the single keys first.
[[nodiscard]] std::vector<SliceAttributes> described_slices(const std::vector<SequenceInfo>& infos,
                                                            std::uint32_t least = kDescribedMinSequences);

}  // namespace driftgate::gpu
