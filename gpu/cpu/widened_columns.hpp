#pragma once

#include <vector>

#include "gpu/cpu/row_columns.hpp"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Logits whose types differ, made one type: the narrower ones in float32, which holds each of them exactly,
/// since the float32 kernels read pairs of one type. Of one thread; the room for it grows to the longest row.
class WidenedColumns {
 public:
  explicit WidenedColumns(const TileKernel& kernel) : kernel_(kernel) {}
  /// `columns` itself where the types are the same, or the kernel reads any. Else its copy, until the next
  /// call.
  [[nodiscard]] RowColumns of(const RowColumns& columns);

 private:
  const TileKernel& kernel_;
  std::vector<float> train_, inf_;
};

}  // namespace driftgate::gpu::cpu
