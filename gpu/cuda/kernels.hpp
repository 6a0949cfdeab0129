#pragma once

#include <cstdint>

#include "gpu/cuda/records.hpp"

/// Launches of the row kernels, in an interface without CUDA types: streams are opaque, and a result other
/// than 0 is a cudaError_t.
namespace driftgate::gpu::cuda {

using StreamHandle = void*;

/// How the float32 kernel is laid out for one shape of row on one device.
struct FastPlan {
  std::uint32_t cluster = 1;         ///< blocks that share a row
  std::uint32_t cached_vectors = 0;  ///< vectors of each kernel that a block keeps in shared memory
  std::uint32_t clusters = 0;        ///< number that runs at once; 0: the float32 kernel cannot be used
  std::uint32_t shared_bytes = 0;  ///< of a block
};

/// Chooses the layout that keeps the pair of rows on chip with the most clusters running at once; where none
/// can keep it, the largest share of a block is kept and the rest is read again through L2. 0 clusters where
/// the rows do not suit the float32 kernel (few columns, different element types, long top lists).
int plan_fast(const BatchView& shape, FastPlan& plan);

/// Measures a batch: runs the float32 kernel (unless plan.clusters is 0) and computes figures, then runs the
/// float64 form for the rows that need it and computes theirs. `results` is in device memory.
int launch_batch(const BatchView& batch, const BatchScratch& scratch, const FastPlan& plan,
                 driftgate_row* results, StreamHandle stream);

/// Copies rows of any alignment to rows whose stride is a multiple of 16 bytes, within the device.
int launch_align(const unsigned char* from, std::uint64_t from_stride_bytes, unsigned char* to,
                 std::uint64_t to_stride_bytes, std::uint64_t row_bytes, std::uint64_t rows,
                 StreamHandle stream);

}  // namespace driftgate::gpu::cuda
