#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/diagnosis/diagnosis.hpp"

// Internal to the diagnosis: the sequences that it looks at, and their figures.

namespace driftgate::stages {

/// Figures of some sequences together. Means are NaN without rows.
struct ScopeFigures {
  std::uint64_t sequences = 0, rows = 0;  ///< rows with full logits
  double tv = 0, kl = 0, flips = 0, overlap = 0, rms = 0, entropy = 0;
  double abs_log_ratio = 0;  ///< mean over target tokens
  double entropy_gap = 0;    ///< mean abs(entropy_inf − entropy_train)
  double one_way = 0;        ///< share of rows whose entropy moved in the more frequent direction
  bool sharper = false;      ///< that direction is down
  double coherence = 0;      ///< abs(mean change of entropy) over the mean of its abs: 1 where all go one way
  double wide_sequences = 0;  ///< share of sequences whose least logit_span is over kWideSpan
  double low_size = 0;        ///< a low quantile over sequences of their mean logit_rms, over the mean of all
  double carried = 0;         ///< median over sequences of the share of rows that carry the drift
  gpu::RowContrast contrast;
  gpu::Moments log_ratio;
};
inline constexpr double kWideSpan = 100;

[[nodiscard]] ScopeFigures figures_of(const gpu::MeasurementTable& table, const Selection& sequences);

/// Size of a sequence's drift, little affected by what its text is: mean logit_rms, or mean abs(log_ratio)
/// where no full logits are known; nothing without either.
[[nodiscard]] std::optional<double> drift_size(const gpu::SequenceRow& sequence);

/// The sequences in which the drift is: all, or some that stand out.
struct Scope {
  Selection sequences{};
  std::string text{};
  schema::SliceWhere slice{};      ///< that describes them, or empty
  bool part = false;               ///< some sequences stand out
  double inside = 0, outside = 0;  ///< mean drift_size where they do
  const char* metric = "";         ///< what drift_size is a mean of
  std::string leaning{};           ///< what many of those that stand out share, where no slice describes them
};
[[nodiscard]] Scope find_scope(const gpu::MeasurementTable& table);

/// Below these the patterns that a sequence or a position makes are not told from rounding, where no floor
/// says what that is: kernels in bf16 that differ in nothing but their order of summation differ most where
/// batches differ, and not at position 0.
inline constexpr double kRoundingKl = 1e-4, kRoundingLogRatio = 0.01;
/// Below this, nats, there is nothing but the rounding of float32.
inline constexpr double kLeastKl = 1e-7, kLeastLogRatio = 1e-4;

/// The indices of all sequences.
[[nodiscard]] Selection everything(const gpu::MeasurementTable& table);

/// The mean kl_inf_train is below `kl`, or, where it is not known, the mean abs(log_ratio) below `log_ratio`.
[[nodiscard]] bool below(const ScopeFigures& figures, double kl, double log_ratio);

/// Mean drift of the rows of one bucket of positions.
struct PositionStep {
  std::int64_t from = 0;
  std::uint64_t rows = 0;
  double size = 0;  ///< mean logit_rms, or mean abs(log_ratio) where no full logits are known
  double kl = 0;    ///< mean kl_inf_train; NaN where no full logits are known
};
/// The buckets that hold at least `least` rows.
[[nodiscard]] std::vector<PositionStep> position_steps(const gpu::MeasurementTable& table,
                                                       std::uint64_t least);

/// The patterns, each looked for on its own. True when one was found.
void look_for_nonfinite(const gpu::MeasurementTable& table, Diagnosis& out);
[[nodiscard]] bool look_for_shapes(const ScopeFigures& figures, const Scope& scope, Diagnosis& out);
void look_for_bf16(const gpu::MeasurementTable& table, Diagnosis& out);
/// Drift that begins at a position with none before it, whatever the sequence.
[[nodiscard]] bool look_for_onset(const gpu::MeasurementTable& table, Diagnosis& out);
[[nodiscard]] bool look_for_position(const gpu::MeasurementTable& table, const Scope& scope, Diagnosis& out);
/// `from_position_0`: whether the captures hold rows of position 0.
void look_for_weights(const ScopeFigures& figures, bool from_position_0, Diagnosis& out);
void look_for_subset(const Scope& scope, Diagnosis& out);

/// Appends a suspicion.
Suspicion& add_suspicion(Diagnosis& out, Pattern pattern, std::string where);

}  // namespace driftgate::stages
