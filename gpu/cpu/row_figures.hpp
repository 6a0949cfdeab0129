#pragma once

#include <cstdint>
#include <optional>

#include "gpu/backend/backend.h"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Bytes of one logit.
[[nodiscard]] std::size_t element_bytes(std::uint32_t dtype);
/// One logit of a row, before the temperature.
[[nodiscard]] double logit_at(const unsigned char* row, std::uint32_t dtype, std::int64_t column);

/// The logits of a row's target token, before the temperature.
struct TargetLogits {
  double train, inf;
};

/// The logits of the target token as the sums of the row include them: raised to the sentinel bound where
/// that applies (kSentinelBound).
[[nodiscard]] TargetLogits bounded(const TargetLogits& token, const Pass1& sums, double temperature);

/// A row whose sums of both passes cover all of its columns, however they were split.
struct SummedRow {
  const Pass1& sums;
  const Pass2& terms;
  const TopList& top_train;  ///< at least two entries where the row has two
  const TopList& top_inf;
  double offset;  ///< offset_of(sums)
  std::uint32_t top_k;
  double temperature;
  std::optional<TargetLogits> token;
};

/// Sets every figure to NaN and the status to DRIFTGATE_ROW_OK.
void clear_figures(driftgate_row& out);
/// Sets the figures that DRIFTGATE_METRICS_CORE excludes to NaN.
void keep_core(driftgate_row& out);
/// log Σ e^z of the row.
[[nodiscard]] double log_sum(const Pass1& sums);
/// Chooses the thresholds of the head sets (docs/design/measurement.md, "Link 2: head and tail") from the
/// sums of pass 1 and sets the head sets to empty. All other members of `out` must be 0.
void choose_heads(const Pass1& sums, Pass2& out);
/// Writes the figures to `out`, which must be cleared and have its `nonfinite` set.
void finish_row(const SummedRow& row, driftgate_row& out);

}  // namespace driftgate::gpu::cpu
