#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/diagnosis/diagnosis.hpp"

// Internal to the diagnosis: the sequences that it looks at, and their figures.

namespace driftgate::stages {

/// Figures of a set of sequences together. Means are NaN without rows.
struct ScopeFigures {
  std::uint64_t sequences = 0, rows = 0;  ///< rows: those with full logits
  double tv = 0, kl = 0, flips = 0, overlap = 0, rms = 0, entropy = 0;
  double abs_log_ratio = 0;  ///< mean |log w| of target tokens
  double entropy_gap = 0;    ///< mean |entropy_inf − entropy_train|
  double one_way = 0;        ///< share of rows whose entropy changed in the more frequent direction
  bool sharper = false;      ///< the more frequent direction is down: K_inf is sharper
  double coherence = 0;      ///< |mean change of entropy| over entropy_gap: 1 if all changes have one sign
  /// The factor s that makes K_inf's logits of K_train's, if that is all the drift. Then, with q ∝ p^s,
  /// (s − 1)(H(p) − H(q) − KL(q‖p)) = KL(q‖p) + KL(p‖q) in every row, and so in sums over rows.
  double scale = 0;
  double wide_sequences = 0;  ///< share of sequences in which every logit_span is over kWideSpan
  double low_size = 0;  ///< 5% quantile over sequences of their mean logit_rms, over the mean of all rows
  /// Median over sequences of (Σx)²/(n·Σx²) with x the logit_rms of a row: the share of rows that carry the
  /// drift.
  double carried = 0;
  gpu::RowContrast contrast;
  gpu::Moments log_ratio;
};
inline constexpr double kWideSpan = 100;

[[nodiscard]] ScopeFigures figures_of(const gpu::MeasurementTable& table, const Selection& sequences);

/// The size of a sequence's drift: its mean logit_rms, which depends little on the text, or its mean |log w|
/// where no full logits are known; std::nullopt without either.
[[nodiscard]] std::optional<double> drift_size(const gpu::SequenceRow& sequence);

/// The sequences that have the drift: all, or some that stand out.
struct Scope {
  Selection sequences{};
  std::string text{};              ///< the sequences in words
  schema::SliceWhere slice{};      ///< the slice that describes them, if there is one
  bool part = false;               ///< some sequences stand out, and `sequences` are these
  double inside = 0, outside = 0;  ///< mean drift_size of those that stand out, and of the others
  const char* metric = "";         ///< the metric of drift_size
  std::string leaning{};  ///< the value that is most over-represented among them, if no slice describes them
};
[[nodiscard]] Scope find_scope(const gpu::MeasurementTable& table);

/// Below this mean drift, patterns of sequences and positions cannot be told from rounding: kernels in bf16
/// that differ only in the order of summation differ most where batches differ, and not at position 0. KL in
/// nats.
inline constexpr double kRoundingKl = 1e-4, kRoundingLogRatio = 0.01;
/// Below this mean drift there is only rounding in float32. KL in nats.
inline constexpr double kLeastKl = 1e-7, kLeastLogRatio = 1e-4;

/// The indices of all sequences.
[[nodiscard]] Selection everything(const gpu::MeasurementTable& table);

/// Whether the mean kl_inf_train is below `kl`, or, where it is not known, the mean |log w| below
/// `log_ratio`.
[[nodiscard]] bool below(const ScopeFigures& figures, double kl, double log_ratio);

/// The mean drift of the rows in one bucket of positions.
struct PositionStep {
  std::int64_t from = 0;  ///< the first position of the bucket
  std::uint64_t rows = 0;
  double size = 0;  ///< mean logit_rms, or mean |log w| where no full logits are known
  double kl = 0;    ///< mean kl_inf_train; NaN where no full logits are known
};
/// The buckets with at least `least` rows.
[[nodiscard]] std::vector<PositionStep> position_steps(const gpu::MeasurementTable& table,
                                                       std::uint64_t least);

/// Each of these functions looks for some patterns and adds a suspicion for what it finds. Those that return
/// a value return whether they found something.
void look_for_nonfinite(const gpu::MeasurementTable& table, Diagnosis& out);
[[nodiscard]] bool look_for_shapes(const ScopeFigures& figures, const Scope& scope, Diagnosis& out);
void look_for_bf16(const gpu::MeasurementTable& table, Diagnosis& out);
/// A penalty on tokens that were there before, or drift in a range of columns.
[[nodiscard]] bool look_for_columns(const gpu::MeasurementTable& table, Diagnosis& out);
/// A kernel that knows the target token: one that gains by it, and one that only loses less than it should,
/// which is looked for where no other pattern was found.
[[nodiscard]] bool look_for_leak(const gpu::MeasurementTable& table, Diagnosis& out);
void look_for_knowledge(const gpu::MeasurementTable& table, Diagnosis& out);
/// Drift that begins at one position in all sequences, with none before it.
[[nodiscard]] bool look_for_onset(const gpu::MeasurementTable& table, Diagnosis& out);
[[nodiscard]] bool look_for_position(const gpu::MeasurementTable& table, const Scope& scope, Diagnosis& out);
/// `from_position_0`: the captures have rows of position 0.
void look_for_weights(const ScopeFigures& figures, bool from_position_0, Diagnosis& out);
void look_for_subset(const Scope& scope, Diagnosis& out);

/// Appends a suspicion. The reference is valid until the next one is added.
Suspicion& add_suspicion(Diagnosis& out, Pattern pattern, std::string where);

}  // namespace driftgate::stages
