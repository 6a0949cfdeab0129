#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpu/backend/backend_shard.h"
#include "gpu/cpu/moment_sums.hpp"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

[[nodiscard]] driftgate_pass1 packed(const Pass1& sums);
[[nodiscard]] Pass1 unpacked(const driftgate_pass1& sums);

/// The thresholds of the head sets, which are otherwise empty.
void set_heads(const double (&least_p)[DRIFTGATE_HEADS], Pass2& out);
void write_heads(const Pass2& sums, driftgate_shard_terms& out);

/// What the first pass says of the parts of one row, in the order of the columns.
struct PartsOfRow {
  const std::byte* first;
  std::size_t stride_bytes;
  std::uint32_t count;
  [[nodiscard]] const driftgate_shard_partial& operator[](std::uint32_t part) const {
    return *reinterpret_cast<const driftgate_shard_partial*>(first + part * stride_bytes);
  }
};

struct MergedMoments {
  Pass1 sums;  ///< of the whole row, about its mean drift
  MomentFigures figures;
};

/// The row's figures from its parts' moments: parts are moved to one pivot and one largest logit, and what a
/// row's sums must hold is judged on the whole. Empty when a part has no moments or those of the row do not
/// hold; sums of pass 1 then do. At least one part must have columns left.
[[nodiscard]] std::optional<MergedMoments> merge_moments(const PartsOfRow& parts);

}  // namespace driftgate::gpu::cpu
