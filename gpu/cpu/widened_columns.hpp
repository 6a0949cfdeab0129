#pragma once

#include <vector>

#include "gpu/cpu/row_columns.hpp"
#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Converts pairs of captures of different types to one type: the narrower logits become float32, which holds
/// them exactly, since the float32 kernels read pairs of one type. For one thread; its buffers grow to the
/// longest row.
class WidenedColumns {
 public:
  explicit WidenedColumns(const TileKernel& kernel) : kernel_(kernel) {}
  /// Returns `columns` where the types are equal or the kernel reads any pair, else a converted copy that is
  /// valid until the next call.
  [[nodiscard]] RowColumns of(const RowColumns& columns);

 private:
  const TileKernel& kernel_;
  std::vector<float> train_, inf_;
};

}  // namespace driftgate::gpu::cpu
