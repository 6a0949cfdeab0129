#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/measurement.hpp"
#include "stages/diagnosis.hpp"
#include "stages/selection.hpp"

// Internal to the diagnosis: the sequences that it looks at, and their figures.

namespace driftgate::stages {

/// Figures of some sequences together. Means are NaN without rows.
struct ScopeFigures {
  std::uint64_t sequences = 0, rows = 0;  ///< rows with full logits
  double tv = 0, kl = 0, flips = 0, overlap = 0, rms = 0, entropy = 0;
  double abs_log_ratio = 0;   ///< mean over realised tokens
  double entropy_gap = 0;     ///< mean abs(entropy_inf − entropy_train)
  double one_way = 0;         ///< share of rows whose entropy moved in the more frequent direction
  bool sharper = false;       ///< that direction is down
  double wide_sequences = 0;  ///< share of sequences whose least logit_span is over kWideSpan
  double even_sequences = 0;  ///< share of sequences whose least logit_rms is over a quarter of the mean
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
  Selection sequences;
  std::string text;
  schema::SliceWhere slice{};      ///< that describes them, or empty
  bool part = false;               ///< some sequences stand out
  double inside = 0, outside = 0;  ///< mean drift_size where they do
  const char* metric = "";         ///< what drift_size is a mean of
  std::string leaning{};           ///< what many of those that stand out share, where no slice describes them
};
[[nodiscard]] Scope find_scope(const gpu::MeasurementTable& table);

/// The patterns, each looked for on its own.
void look_for_nonfinite(const gpu::MeasurementTable& table, Diagnosis& out);
/// True when a shape was found.
[[nodiscard]] bool look_for_shapes(const gpu::MeasurementTable& table, const Scope& scope, Diagnosis& out);
void look_for_bf16(const gpu::MeasurementTable& table, Diagnosis& out);
void look_for_place(const Scope& scope, Diagnosis& out);
/// `shape_known`: the drift has an explanation that some positions escape by their nature.
void look_for_growth(const gpu::MeasurementTable& table, bool shape_known, Diagnosis& out);

}  // namespace driftgate::stages
