#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/backend/backend.h"
#include "gpu/cpu/row_figures.hpp"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Columns of one row that are measured together: the whole row or a part of it.
struct RowColumns {
  const unsigned char* train;  ///< the first of them
  const unsigned char* inf;
  std::uint32_t train_dtype, inf_dtype;
  std::uint32_t first_id, count;
  double temperature;
  /// The columns that will be read after these, for prefetching; null where there are none or they are
  /// unknown.
  const unsigned char* next_train = nullptr;
  const unsigned char* next_inf = nullptr;

  /// Number of tiles to prefetch: enough bytes to hide the latency of memory, and few enough for the L2
  /// cache.
  [[nodiscard]] static constexpr std::size_t ahead_of(std::uint32_t dtype) {
    return dtype == DRIFTGATE_F32 ? 4 : 2;
  }
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
            temperature,
            ahead(train, next_train, train_dtype, index),
            ahead(inf, next_inf, inf_dtype, index)};
  }
  /// `columns` of these columns, from index `first` on.
  [[nodiscard]] RowColumns part(std::uint32_t first, std::uint32_t columns) const {
    RowColumns out = *this;
    out.train += first * element_bytes(train_dtype);
    out.inf += first * element_bytes(inf_dtype);
    out.first_id += first, out.count = columns;
    if (first + columns == count) return out;
    out.next_train = out.train + columns * element_bytes(train_dtype);
    out.next_inf = out.inf + columns * element_bytes(inf_dtype);
    return out;
  }

 private:
  [[nodiscard]] const unsigned char* ahead(const unsigned char* here, const unsigned char* next,
                                           std::uint32_t dtype, std::size_t index) const {
    const std::size_t tile_bytes = kTileColumns * element_bytes(dtype), at = index + ahead_of(dtype);
    if (at < tiles()) return here + at * tile_bytes;
    return next != nullptr ? next + (at - tiles()) * tile_bytes : nullptr;
  }
};

/// The columns of a batch in row `index`; the first is column `first_id` of the whole row.
[[nodiscard]] inline RowColumns columns_of(const driftgate_batch& batch, std::uint64_t index,
                                           std::uint32_t first_id = 0) {
  const auto row = [&](const driftgate_logits& logits) {
    return static_cast<const unsigned char*>(logits.data) + index * logits.row_stride_bytes;
  };
  RowColumns out{row(batch.train), row(batch.inf),   batch.train.dtype, batch.inf.dtype,
                 first_id,         batch.vocabulary, batch.temperature};
  if (index + 1 < batch.rows) {
    out.next_train = out.train + batch.train.row_stride_bytes;
    out.next_inf = out.inf + batch.inf.row_stride_bytes;
  }
  return out;
}

}  // namespace driftgate::gpu::cpu
