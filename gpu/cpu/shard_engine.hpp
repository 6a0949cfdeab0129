#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

/// What a slot keeps of its batch between the passes, at most. Rows beyond are read again.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;

[[nodiscard]] driftgate_pass1 packed(const Pass1& sums);
[[nodiscard]] Pass1 unpacked(const driftgate_pass1& sums);

/// Evaluates parts of rows (gpu/backend_shard.h). Between the passes it keeps the float32 exponentials and
/// drifts of each tile that has them, so that pass 2 neither reads the logits nor forms an exponential.
class ShardEngine {
 public:
  ShardEngine(const TileKernel& kernel, std::uint32_t threads, std::uint32_t top_k);

  void pass1(const driftgate_batch& batch, const driftgate_shard& shard,
             std::span<driftgate_shard_partial> partials, std::span<driftgate_top_entry> top);
  /// Whether the slot's last pass 1 was of a batch of this shape.
  [[nodiscard]] bool follows(const driftgate_batch& batch, const driftgate_shard& shard) const;
  void pass2(const driftgate_batch& batch, const driftgate_shard& shard,
             std::span<const driftgate_shard_row> rows, std::span<driftgate_shard_terms> terms);

 private:
  struct Slot {
    std::uint64_t rows = 0, kept_rows = 0;
    std::uint32_t vocabulary = 0, first_column = 0;
    std::vector<Tile> tiles;    ///< of each row, in order
    std::vector<float> values;  ///< narrow_e and narrow_drift of each tile of the kept rows
  };
  struct Scratch {
    std::vector<double> wide;
    std::vector<float> narrow;
    std::vector<TopEntry> train, inf;
  };
  /// A row of a batch and where its columns stand.
  struct Row {
    const driftgate_batch& batch;
    const driftgate_shard& shard;
    std::uint64_t index;
  };

  void prepare(Slot& slot, const driftgate_batch& batch, const driftgate_shard& shard) const;
  [[nodiscard]] Tile blank_tile(Scratch& scratch, bool narrow) const;
  void pass1_row(const Row& row, Slot& slot, Scratch& scratch, driftgate_shard_partial& out,
                 std::span<driftgate_top_entry> top) const;
  void pass2_row(const Row& row, Slot& slot, Scratch& scratch, const driftgate_shard_row& merged,
                 driftgate_shard_terms& out) const;
  [[nodiscard]] Pass1 exact_sums(const Row& row, Scratch& scratch) const;
  template <typename Work>
  void for_each_row(std::uint64_t rows, Work work);

  const TileKernel& kernel_;
  std::uint32_t capacity_;        ///< of the top lists
  std::vector<Scratch> scratch_;  ///< of each thread
  std::array<Slot, DRIFTGATE_SHARD_SLOTS> slots_;
};

}  // namespace driftgate::gpu::cpu
