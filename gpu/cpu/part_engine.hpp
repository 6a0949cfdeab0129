#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/moment_row.hpp"
#include "gpu/cpu/row_columns.hpp"
#include "gpu/cpu/tile_kernel.hpp"
#include "gpu/cpu/widened_columns.hpp"

namespace driftgate::gpu::cpu {

/// How the sums of a part were computed: tiles in float32 where possible, tiles in float64, or moments.
enum class PartForm : std::uint8_t { tiles, wide_tiles, moments };

/// What is kept of a part of a row between its two passes: float32 exponentials and drifts, so that pass 2
/// neither reads logits nor computes exponentials.
struct KeptPart {
  std::span<float> values;  ///< 2·kTileColumns for each tile
  std::span<Tile> tiles;    ///< of the tile kernels
  std::span<MomentTileFrame> frames;
  MomentState* moments;
  PartForm* form;
};

/// Buffers for many parts with the same number of tiles.
class KeptParts {
 public:
  static constexpr std::size_t kTileFloats = 2 * kTileColumns;
  /// Never shrinks.
  void resize(std::size_t parts, std::size_t tiles);
  [[nodiscard]] KeptPart at(std::size_t part);

 private:
  std::size_t tiles_ = 0;
  std::vector<float> values_;
  std::vector<Tile> tile_;
  std::vector<MomentTileFrame> frames_;
  std::vector<MomentState> moments_;
  std::vector<PartForm> forms_;
};

/// Evaluates parts of rows (gpu/backend/backend_shard.h) with one thread: by sums of powers where the drifts
/// are small, else by the tile kernels.
class PartEngine {
 public:
  PartEngine(const TileKernel& kernel, std::uint32_t top_k, std::uint32_t metrics);

  /// `token`: the column of the target token in the whole row, or null. `top`: room for 2·max(top_k, 2)
  /// entries.
  void pass1(const RowColumns& logits, const std::int64_t* token, const KeptPart& kept,
             driftgate_shard_partial& out, std::span<driftgate_top_entry> top);
  /// Pass 2 of the part whose pass 1 filled `kept`.
  void pass2(const RowColumns& logits, const KeptPart& kept, const driftgate_shard_row& merged,
             driftgate_shard_terms& out);

 private:
  void sum_tiles(const RowColumns& columns, const KeptPart& kept, TopList& train, TopList& inf,
                 driftgate_shard_partial& out);
  [[nodiscard]] bool balance(const RowColumns& columns, const KeptPart& kept, Pass1& sums);
  void add_terms(const RowColumns& columns, const KeptPart& kept, const driftgate_shard_row& about,
                 Pass2& sums);
  void tile_terms(const RowColumns& columns, const KeptPart& kept, const driftgate_shard_row& merged,
                  driftgate_shard_terms& out);
  [[nodiscard]] Pass1 exact_sums(const RowColumns& columns);
  [[nodiscard]] Tile blank_tile(bool narrow);

  const TileKernel& kernel_;
  WidenedColumns widened_;
  std::uint32_t capacity_;  ///< of the top lists
  bool core_;
  std::vector<double> wide_;
  std::vector<float> narrow_;
  std::vector<TopEntry> train_, inf_;
  std::optional<MomentRow> moments_;
};

}  // namespace driftgate::gpu::cpu
