#include "gpu/cuda/hidden_kernels.hpp"

#include <cuda_runtime.h>

#include "gpu/cuda/hidden_exact.hpp"
#include "gpu/cuda/hidden_finish.hpp"
#include "gpu/cuda/hidden_pack.hpp"
#include "gpu/cuda/hidden_sweep.hpp"

namespace driftgate::gpu::cuda {

namespace {

using Shape = TileShape<4, 2>;
constexpr unsigned kPackHeadThreads = 128;
constexpr unsigned kMostStages = 3;
static_assert(Shape::kRows <= kLinePadding && kLinePadding % Shape::kRows == 0);
static_assert(kLinePadding % Shape::kColumns == 0);

/// The view that a thread has of its block; the emulated one of the tests has the same members.
class HiddenThread {
 public:
  __device__ explicit HiddenThread(unsigned char* dynamic) : dynamic_(dynamic) {}
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned threads() const { return blockDim.x; }
  template <class T>
  __device__ T& shared() {
    return *reinterpret_cast<T*>(dynamic_);
  }
  __device__ void sync() { __syncthreads(); }
  __device__ void add(std::uint32_t* counter, std::uint32_t value) { atomicAdd(counter, value); }
  template <typename T>
  __device__ T shuffle_xor(T value, unsigned mask) {
    return __shfl_xor_sync(0xffffffffU, value, mask);
  }
  /// Copies sixteen bytes from device to shared memory, bypassing the L1 cache.
  __device__ void copy_async(unsigned char* to, const signed char* from) {
    const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  }
  __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  /// Waits until at most `behind` (0 or 1) of the committed groups are still under way.
  __device__ void wait(unsigned behind) {
    if (behind == 0) {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
  }
  __device__ void publish(const Fragments&) {}
  __device__ void mma(int (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }

 private:
  unsigned char* dynamic_;
};

constexpr std::uint32_t kSweepSharedBytes = (sizeof(SweepShared<Shape>) + 15) / 16 * 16;

template <HiddenSweep Kind>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    sweep_kernel(const __grid_constant__ HeadsView heads, const __grid_constant__ HiddenBatch batch,
                 const __grid_constant__ HiddenScratch scratch, std::uint32_t stages) {
  extern __shared__ Vector dynamic[];
  auto* const bytes = reinterpret_cast<unsigned char*>(dynamic);
  HiddenThread thread(bytes);
  // Blocks that share columns run at the same time, so that they share loads through L2.
  sweep_rows<Shape, Kind>(thread, heads, batch, scratch, blockIdx.x, blockIdx.y, stages,
                          bytes + kSweepSharedBytes);
}

__global__ void __launch_bounds__(kPackHeadThreads)
    pack_head_kernel(const __grid_constant__ HeadsView heads, unsigned which, DigitLines to,
                     LineNorms* norms) {
  __shared__ BlockShared shared;
  HiddenThread thread(reinterpret_cast<unsigned char*>(&shared));
  for (std::uint32_t column = blockIdx.x; column < to.lines; column += gridDim.x) {
    pack_column(thread, heads, which, column, to, norms);
  }
}

__global__ void __launch_bounds__(kPackThreads)
    pack_rows_kernel(const __grid_constant__ HeadsView heads, const __grid_constant__ HiddenBatch batch,
                     const __grid_constant__ HiddenScratch scratch) {
  __shared__ BlockShared shared;
  HiddenThread thread(reinterpret_cast<unsigned char*>(&shared));
  pack_row(thread, heads, batch, scratch, blockIdx.x);
}

__global__ void __launch_bounds__(kFrameThreads)
    frame_kernel(const __grid_constant__ HeadsView heads, const __grid_constant__ HiddenBatch batch,
                 const __grid_constant__ HiddenScratch scratch) {
  __shared__ FrameShared shared;
  HiddenThread thread(reinterpret_cast<unsigned char*>(&shared));
  frame_row(thread, heads, batch, scratch, blockIdx.x);
}

__global__ void __launch_bounds__(kExactThreads)
    exact_kernel(const __grid_constant__ HeadsView heads, const __grid_constant__ HiddenBatch batch,
                 const __grid_constant__ HiddenScratch scratch) {
  __shared__ ExactShared shared;
  HiddenThread thread(reinterpret_cast<unsigned char*>(&shared));
  exact_row(thread, heads, batch, scratch, blockIdx.x);
}

__global__ void __launch_bounds__(kMergeThreads)
    merge_kernel(const __grid_constant__ HeadsView heads, const __grid_constant__ HiddenBatch batch,
                 const __grid_constant__ HiddenScratch scratch) {
  __shared__ MergeShared shared;
  HiddenThread thread(reinterpret_cast<unsigned char*>(&shared));
  merge_row(thread, heads, batch, scratch, blockIdx.x);
}

__global__ void __launch_bounds__(kMergeThreads)
    finish_hidden_kernel(const __grid_constant__ HeadsView heads, const __grid_constant__ HiddenBatch batch,
                         const __grid_constant__ HiddenScratch scratch, driftgate_row* results) {
  __shared__ MergeShared shared;
  HiddenThread thread(reinterpret_cast<unsigned char*>(&shared));
  finish_hidden_row(thread, heads, batch, scratch, blockIdx.x, results[blockIdx.x]);
}

template <HiddenSweep Kind>
cudaError_t allow_shared(std::uint32_t bytes) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(sweep_kernel<Kind>),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

template <HiddenSweep Kind>
cudaError_t launch_sweep(const HeadsView& heads, const HiddenBatch& batch, const HiddenScratch& scratch,
                         const HiddenLayout& layout, cudaStream_t queue) {
  const dim3 grid((batch.rows + Shape::kRows - 1) / Shape::kRows, scratch.splits);
  sweep_kernel<Kind>
      <<<grid, Shape::kThreads, layout.shared_bytes, queue>>>(heads, batch, scratch, layout.stages);
  return cudaGetLastError();
}

}  // namespace

int plan_hidden(HiddenLayout& layout) {
  int device = 0, shared = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) return error;
  layout = {};
  layout.rows = Shape::kRows, layout.columns = Shape::kColumns, layout.parts_of_tile = Shape::kAcross;
  layout.stages = kMostStages;
  const auto bytes = [&] { return kSweepSharedBytes + layout.stages * Shape::kStageBytes; };
  if (bytes() > static_cast<std::uint32_t>(shared)) layout.stages = 2;
  layout.shared_bytes = bytes();
  layout.blocks = static_cast<std::uint32_t>(multiprocessors);
  error = allow_shared<HiddenSweep::sample>(layout.shared_bytes);
  if (error == cudaSuccess) error = allow_shared<HiddenSweep::first>(layout.shared_bytes);
  if (error == cudaSuccess) error = allow_shared<HiddenSweep::second>(layout.shared_bytes);
  return error;
}

int launch_pack_head(const HeadsView& heads, unsigned which, const DigitLines& to, LineNorms* norms,
                     StreamHandle stream) {
  constexpr std::uint32_t kMostBlocks = 65'535;
  const std::uint32_t blocks = to.lines < kMostBlocks ? to.lines : kMostBlocks;
  pack_head_kernel<<<blocks, kPackHeadThreads, 0, static_cast<cudaStream_t>(stream)>>>(heads, which, to,
                                                                                       norms);
  return cudaGetLastError();
}

int launch_hidden(const HeadsView& heads, const HiddenBatch& batch, const HiddenScratch& scratch,
                  const HiddenLayout& layout, driftgate_row* results, StreamHandle stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const std::uint32_t lines = (batch.rows + Shape::kRows - 1) / Shape::kRows * Shape::kRows;
  pack_rows_kernel<<<lines, kPackThreads, 0, queue>>>(heads, batch, scratch);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = launch_sweep<HiddenSweep::sample>(heads, batch, scratch, layout, queue);
  if (error != cudaSuccess) return error;
  frame_kernel<<<batch.rows, kFrameThreads, 0, queue>>>(heads, batch, scratch);
  error = cudaGetLastError();
  if (error == cudaSuccess) error = launch_sweep<HiddenSweep::first>(heads, batch, scratch, layout, queue);
  if (error != cudaSuccess) return error;
  exact_kernel<<<batch.rows, kExactThreads, 0, queue>>>(heads, batch, scratch);
  merge_kernel<<<batch.rows, kMergeThreads, 0, queue>>>(heads, batch, scratch);
  error = cudaGetLastError();
  if (error == cudaSuccess) error = launch_sweep<HiddenSweep::second>(heads, batch, scratch, layout, queue);
  if (error != cudaSuccess) return error;
  finish_hidden_kernel<<<batch.rows, kMergeThreads, 0, queue>>>(heads, batch, scratch, results);
  return cudaGetLastError();
}

}  // namespace driftgate::gpu::cuda
