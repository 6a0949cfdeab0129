#pragma once

#include <cstdint>

#include "gpu/cuda/records.hpp"

/// The launches of the row kernels, free of CUDA's types: streams are opaque, and a result other than 0 is
/// a cudaError_t.
namespace driftgate::gpu::cuda {

using StreamHandle = void*;

/// How the float32 kernel is laid out for one shape of row on one device.
struct FastPlan {
  std::uint32_t cluster = 1;         ///< blocks that share a row
  std::uint32_t cached_vectors = 0;  ///< of each kernel that a block keeps in shared memory
  std::uint32_t clusters = 0;      ///< that run at once, so that a row's buffers are reused; 0: not possible
  std::uint32_t shared_bytes = 0;  ///< of a block
};

/// Of the possible layouts the one that keeps the row pair on chip with most clusters at once; where none
/// keeps it, the largest block's share is kept and the rest is read again through L2. 0 clusters where the
/// rows do not suit the float32 kernel (few columns, element types that differ, long top lists).
int plan_fast(const BatchView& shape, FastPlan& plan);

/// Measures a batch: the float32 kernel (unless plan.clusters is 0), the figures, the float64 form of the
/// rows that need it, their figures. `results` in device memory.
int launch_batch(const BatchView& batch, const BatchScratch& scratch, const FastPlan& plan,
                 driftgate_row* results, StreamHandle stream);

/// Copies rows of any alignment to rows of a stride that is a multiple of 16 bytes, within the device.
int launch_align(const unsigned char* from, std::uint64_t from_stride_bytes, unsigned char* to,
                 std::uint64_t to_stride_bytes, std::uint64_t row_bytes, std::uint64_t rows,
                 StreamHandle stream);

}  // namespace driftgate::gpu::cuda
