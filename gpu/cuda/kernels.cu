#include "gpu/cuda/kernels.hpp"

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "gpu/cuda/fast_row.hpp"
#include "gpu/cuda/finish_part.hpp"
#include "gpu/cuda/wide_row.hpp"

namespace driftgate::gpu::cuda {

namespace {

namespace cg = cooperative_groups;

constexpr unsigned kFinishThreads = 64;
constexpr unsigned kMaxFinishBlocks = 65'535;
constexpr std::uint32_t kLeastFastColumns = 2'048;  // so that every group of threads has columns

/// The view that a thread has of its block and cluster; the emulated one of the tests has the same members.
class DeviceThread {
 public:
  __device__ DeviceThread(FastShared* fast, WideShared* wide, Vector* cache, std::uint32_t cached)
      : fast_(fast), wide_(wide), cache_(cache), cached_(cached) {}
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned threads() const { return blockDim.x; }
  __device__ FastShared& shared() { return *fast_; }
  __device__ WideShared& wide() { return *wide_; }
  __device__ Vector* cache_train() { return cache_; }
  __device__ Vector* cache_inf() { return cache_ + cached_; }
  __device__ void sync() { __syncthreads(); }
  __device__ std::uint32_t next(std::uint32_t* counter) { return atomicAdd(counter, 1U); }
  __device__ void add(std::uint32_t* counter, std::uint32_t value) { atomicAdd(counter, value); }
  template <typename T>
  __device__ T shuffle_xor(T value, unsigned mask) {
    return __shfl_xor_sync(0xffffffffU, value, mask);
  }
  /// A load that is not cached in L1, because the data are read only once.
  __device__ Vector stream(const Vector* from) {
    Vector out;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.words[0]), "=r"(out.words[1]), "=r"(out.words[2]), "=r"(out.words[3])
                 : "l"(from));
    return out;
  }
#if __CUDA_ARCH__ >= 900
  __device__ unsigned rank() const {
    return cg::this_cluster().block_rank();
  }
  __device__ unsigned blocks() const {
    return cg::this_cluster().num_blocks();
  }
  __device__ const FastShared& peer(unsigned rank) {
    return *cg::this_cluster().map_shared_rank(fast_, rank);
  }
  __device__ void sync_cluster() {
    cg::this_cluster().sync();
  }
  __device__ unsigned cluster() const {
    return blockIdx.x / blocks();
  }
  __device__ unsigned clusters() const {
    return gridDim.x / blocks();
  }
#else
  __device__ unsigned rank() const {
    return 0;
  }
  __device__ unsigned blocks() const {
    return 1;
  }
  __device__ const FastShared& peer(unsigned) {
    return *fast_;
  }
  __device__ void sync_cluster() {
    __syncthreads();
  }
  __device__ unsigned cluster() const {
    return blockIdx.x;
  }
  __device__ unsigned clusters() const {
    return gridDim.x;
  }
#endif

 private:
  FastShared* fast_;
  WideShared* wide_;
  Vector* cache_;
  std::uint32_t cached_;
};

constexpr std::uint32_t kFastSharedBytes = (sizeof(FastShared) + 15) / 16 * 16;

/// Three blocks fit on a multiprocessor at once: while one waits for its row, others compute.
template <std::uint32_t Dtype>
__global__ void __launch_bounds__(kFastThreads, 3)
    fast_kernel(BatchView batch, BatchScratch scratch, std::uint32_t cached) {
  extern __shared__ Vector dynamic[];
  DeviceThread thread(reinterpret_cast<FastShared*>(dynamic), nullptr,
                      dynamic + kFastSharedBytes / sizeof(Vector), cached);
  for (std::uint64_t row = thread.cluster(); row < batch.rows; row += thread.clusters()) {
    measure_row<Dtype>(thread, batch, scratch, row, cached);
  }
  thread.sync_cluster();  // no block may end while another reads its shared memory
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_fast(BatchView batch, BatchScratch scratch, driftgate_row* results) {
  for (std::uint64_t row = blockIdx.x * kFinishThreads + threadIdx.x; row < batch.rows;
       row += std::uint64_t{gridDim.x} * kFinishThreads) {
    if (batch.mode == Mode::shard_first) {
      finish_fast_part(batch, scratch, row);
    } else {
      finish_fast_row(batch, scratch, row, results[row]);
    }
  }
}

__global__ void __launch_bounds__(kWideThreads) wide_kernel(BatchView batch, BatchScratch scratch) {
  __shared__ WideShared shared;
  DeviceThread thread(nullptr, &shared, nullptr, 0);
  for (std::uint64_t row = blockIdx.x; row < batch.rows; row += gridDim.x) {
    measure_wide(thread, batch, scratch, row);
  }
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_wide(BatchView batch, BatchScratch scratch, driftgate_row* results) {
  for (std::uint64_t row = blockIdx.x * kFinishThreads + threadIdx.x; row < batch.rows;
       row += std::uint64_t{gridDim.x} * kFinishThreads) {
    if (batch.mode == Mode::shard_second) {
      finish_terms(scratch, row);
      continue;
    }
    if (scratch.fast && scratch.rows[row].outcome == Outcome::measured) continue;
    if (batch.mode == Mode::shard_first) {
      finish_wide_partial(batch, scratch, row);
    } else {
      finish_wide_row(batch, scratch, row, results[row]);
    }
  }
}

__global__ void align_rows(const unsigned char* from, std::uint64_t from_stride_bytes, unsigned char* to,
                           std::uint64_t to_stride_bytes, std::uint64_t row_bytes, std::uint64_t rows) {
  for (std::uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (std::uint64_t i = threadIdx.x; i < row_bytes; i += blockDim.x) {
      to[row * to_stride_bytes + i] = from[row * from_stride_bytes + i];
    }
  }
}

using FastKernel = void (*)(BatchView, BatchScratch, std::uint32_t);

FastKernel fast_kernel_of(std::uint32_t dtype) {
  if (dtype == DRIFTGATE_F32) return fast_kernel<DRIFTGATE_F32>;
  return dtype == DRIFTGATE_F16 ? fast_kernel<DRIFTGATE_F16> : fast_kernel<DRIFTGATE_BF16>;
}

struct Device {
  int multiprocessors = 0, shared_per_block = 0, shared_per_multiprocessor = 0, major = 0;
};

cudaError_t current_device(Device& out) {
  int device = 0;
  const struct {
    cudaDeviceAttr attribute;
    int& value;
  } wanted[] = {{cudaDevAttrMultiProcessorCount, out.multiprocessors},
                {cudaDevAttrMaxSharedMemoryPerBlockOptin, out.shared_per_block},
                {cudaDevAttrMaxSharedMemoryPerMultiprocessor, out.shared_per_multiprocessor},
                {cudaDevAttrComputeCapabilityMajor, out.major}};
  cudaError_t error = cudaGetDevice(&device);
  for (const auto& [attribute, value] : wanted) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, attribute, device);
  }
  return error;
}

cudaLaunchConfig_t fast_launch(const FastPlan& plan, cudaLaunchAttribute* cluster) {
  cluster->id = cudaLaunchAttributeClusterDimension;
  cluster->val.clusterDim.x = plan.cluster;
  cluster->val.clusterDim.y = cluster->val.clusterDim.z = 1;
  cudaLaunchConfig_t out{};
  out.gridDim = dim3(plan.clusters * plan.cluster);
  out.blockDim = dim3(kFastThreads);
  out.dynamicSmemBytes = plan.shared_bytes;
  out.attrs = cluster;
  out.numAttrs = plan.cluster > 1 ? 1 : 0;
  return out;
}

/// The number of clusters of this layout that the device runs at once.
cudaError_t clusters_at_once(FastKernel kernel, const Device& device, FastPlan& plan) {
  const void* function = reinterpret_cast<const void*>(kernel);
  // Requests the maximum of the device instead of what this plan needs: attributes belong to the function,
  // and an engine in another thread may be about to launch it with more.
  cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, device.shared_per_block);
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared);
  }
  int found = 0;
  if (plan.cluster == 1) {
    if (error == cudaSuccess) {
      error =
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found, function, kFastThreads, plan.shared_bytes);
    }
    found *= device.multiprocessors;
  } else {
    if (error == cudaSuccess && plan.cluster > 8) {
      error = cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    }
    cudaLaunchAttribute attribute{};
    plan.clusters = 1;
    const cudaLaunchConfig_t config = fast_launch(plan, &attribute);
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveClusters(&found, function, &config);
  }
  plan.clusters = static_cast<std::uint32_t>(found);
  return error;
}

unsigned grid_of(std::uint64_t rows, unsigned each) {
  const std::uint64_t blocks = (rows + each - 1) / each;
  return static_cast<unsigned>(blocks < kMaxFinishBlocks ? blocks : kMaxFinishBlocks);
}

}  // namespace

int plan_fast(const BatchView& shape, FastPlan& plan) {
  plan = {};
  const bool suits = shape.train_dtype == shape.inf_dtype && shape.temperature == 1.0 &&
                     shape.columns >= kLeastFastColumns && shape.top_k <= kMaxFastTopK;
  if (!suits) return cudaSuccess;
  Device device;
  if (const cudaError_t error = current_device(device); error != cudaSuccess) return error;
  const std::uint32_t vectors = shape.columns / (16 / element_bytes(shape.train_dtype));
  const std::uint32_t most = (static_cast<std::uint32_t>(device.shared_per_block) - kFastSharedBytes) / 32;
  const FastKernel kernel = fast_kernel_of(shape.train_dtype);
  std::uint64_t best_columns = 0;
  for (std::uint32_t cluster = 1; cluster <= (device.major >= 9 ? kMaxCluster : 1U); cluster *= 2) {
    if (cluster > 1 && shape.columns / cluster < kLeastFastColumns) break;
    FastPlan tried;
    tried.cluster = cluster;
    const std::uint32_t share = (vectors + cluster - 1) / cluster;
    tried.cached_vectors = share < most ? share : most;
    tried.shared_bytes = kFastSharedBytes + tried.cached_vectors * 32;
    const cudaError_t error = clusters_at_once(kernel, device, tried);
    if (error != cudaSuccess && cluster <= 8) return error;
    if (error != cudaSuccess || tried.clusters == 0) {
      cudaGetLastError();  // clears the error: not every device supports clusters of 16
      continue;
    }
    // Compares the number of columns that are processed at the same time, without those that are read twice.
    // Of equal layouts the smaller cluster has the cheaper barriers.
    const std::uint64_t columns = std::uint64_t{tried.clusters} * cluster * tried.cached_vectors;
    const bool fits = tried.cached_vectors == share, had = plan.clusters > 0;
    const bool plan_fits = had && plan.cached_vectors * plan.cluster >= vectors;
    const unsigned blocks = tried.clusters * tried.cluster, plan_blocks = plan.clusters * plan.cluster;
    const bool better = fits != plan_fits ? fits
                        : fits            ? blocks > plan_blocks * 5 / 4
                                          : columns > best_columns;
    if (!had || better) plan = tried, best_columns = columns;
  }
  return cudaSuccess;
}

int launch_batch(const BatchView& batch, const BatchScratch& scratch, const FastPlan& plan,
                 driftgate_row* results, StreamHandle stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  if (scratch.fast) {
    const FastKernel kernel = fast_kernel_of(batch.train_dtype);
    FastPlan used = plan;
    if (batch.rows < used.clusters) used.clusters = static_cast<std::uint32_t>(batch.rows);
    cudaLaunchAttribute attribute{};
    cudaLaunchConfig_t config = fast_launch(used, &attribute);
    config.stream = queue;
    cudaError_t error = cudaLaunchKernelEx(&config, kernel, batch, scratch, plan.cached_vectors);
    if (error != cudaSuccess) return error;
    if (batch.mode != Mode::shard_second) {
      finish_fast<<<grid_of(batch.rows, kFinishThreads), kFinishThreads, 0, queue>>>(batch, scratch, results);
    }
    error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  wide_kernel<<<grid_of(batch.rows, 1), kWideThreads, 0, queue>>>(batch, scratch);
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  finish_wide<<<grid_of(batch.rows, kFinishThreads), kFinishThreads, 0, queue>>>(batch, scratch, results);
  return cudaGetLastError();
}

int launch_align(const unsigned char* from, std::uint64_t from_stride_bytes, unsigned char* to,
                 std::uint64_t to_stride_bytes, std::uint64_t row_bytes, std::uint64_t rows,
                 StreamHandle stream) {
  align_rows<<<grid_of(rows, 1), kWideThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      from, from_stride_bytes, to, to_stride_bytes, row_bytes, rows);
  return cudaGetLastError();
}

}  // namespace driftgate::gpu::cuda
