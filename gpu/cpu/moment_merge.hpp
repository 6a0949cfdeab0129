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

/// Sets the thresholds of the head sets, which are otherwise empty.
void set_heads(const double (&least_p)[DRIFTGATE_HEADS], Pass2& out);
void write_heads(const Pass2& sums, driftgate_shard_terms& out);

/// The results of pass 1 for the parts of one row, in the order of the columns.
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

/// The figures of a row from the moments of its parts. The parts are moved to a common pivot and largest
/// logit, and accuracy is judged on the merged sums. Empty when a part has no moments or the merged ones are
/// not accurate enough; the sums of pass 1 are used then. Precondition: at least one part has unmasked
/// columns. See gpu/cpu/README.md, "Long rows".
[[nodiscard]] std::optional<MergedMoments> merge_moments(const PartsOfRow& parts);

}  // namespace driftgate::gpu::cpu
