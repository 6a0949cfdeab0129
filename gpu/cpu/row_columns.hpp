#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/backend.h"
#include "gpu/cpu/row_figures.hpp"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Columns of one row that are measured together: all of it or a part.
struct RowColumns {
  const unsigned char* train;  ///< the first of them
  const unsigned char* inf;
  std::uint32_t train_dtype, inf_dtype;
  std::uint32_t first_id, count;
  double temperature;

  [[nodiscard]] static constexpr std::size_t tiles_of(std::uint32_t columns) {
    return (columns + kTileColumns - 1) / kTileColumns;
  }
  [[nodiscard]] std::size_t tiles() const { return tiles_of(count); }
  [[nodiscard]] TileInput tile(std::size_t index) const {
    const std::size_t first = index * kTileColumns;
    return {train + first * element_bytes(train_dtype),
            inf + first * element_bytes(inf_dtype),
            train_dtype,
            inf_dtype,
            static_cast<std::uint32_t>(std::min<std::size_t>(kTileColumns, count - first)),
            static_cast<std::uint32_t>(first_id + first),
            temperature};
  }
  /// Of those columns, `columns` from `first` on.
  [[nodiscard]] RowColumns part(std::uint32_t first, std::uint32_t columns) const {
    RowColumns out = *this;
    out.train += first * element_bytes(train_dtype);
    out.inf += first * element_bytes(inf_dtype);
    out.first_id += first, out.count = columns;
    return out;
  }
};

/// The columns of a batch in row `index`; the first is column `first_id` of the whole row.
[[nodiscard]] inline RowColumns columns_of(const driftgate_batch& batch, std::uint64_t index,
                                           std::uint32_t first_id = 0) {
  const auto row = [&](const driftgate_logits& logits) {
    return static_cast<const unsigned char*>(logits.data) + index * logits.row_stride_bytes;
  };
  return {row(batch.train), row(batch.inf),   batch.train.dtype, batch.inf.dtype,
          first_id,         batch.vocabulary, batch.temperature};
}

}  // namespace driftgate::gpu::cpu
