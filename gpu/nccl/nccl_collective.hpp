#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gpu/collective_plugin.h"

namespace driftgate::gpu::nccl {

/// Writes the fault and returns its kind.
std::int32_t fault_of(driftgate_fault& fault, std::uint32_t kind, const char* what, const char* reason);

/// Device memory that grows.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();
  [[nodiscard]] cudaError_t reserve(std::size_t bytes);
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The collective over the devices of a NCCL communicator. Bytes are copied to the device, exchanged and
/// copied back. A wait polls the stream and the communicator's asynchronous error; at the deadline the
/// communicator is aborted. NCCL does not say which rank was missing.
class NcclCollective {
 public:
  static std::unique_ptr<NcclCollective> open(const driftgate_collective_config& config,
                                              driftgate_fault& fault);
  NcclCollective(const NcclCollective&) = delete;
  NcclCollective& operator=(const NcclCollective&) = delete;
  ~NcclCollective();

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  std::int32_t all_gather(std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes, void* all,
                          driftgate_fault& fault);
  std::int32_t gather(std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes, void* all,
                      driftgate_fault& fault);
  std::int32_t broadcast(std::uint32_t timeout_ms, void* data, std::uint64_t bytes, driftgate_fault& fault);
  /// A wait in another thread ends and aborts the communicator.
  void leave() { left_ = true; }

 private:
  NcclCollective() = default;
  using Enqueue = std::function<ncclResult_t()>;
  /// Copies `in` bytes from `from`, runs `enqueue`, copies `out` bytes to `to` and waits for all of it.
  std::int32_t run(std::uint32_t timeout_ms, const void* from, std::uint64_t in, void* to, std::uint64_t out,
                   const Enqueue& enqueue, driftgate_fault& fault);
  /// Polls until `over`, the deadline, an asynchronous error or `leave`.
  std::int32_t wait(std::uint32_t timeout_ms, const std::function<cudaError_t()>& over,
                    driftgate_fault& fault);
  void abort();

  std::uint32_t rank_ = 0, size_ = 1;
  int device_ = 0;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  DeviceBuffer send_, receive_;
  std::atomic<bool> left_ = false;
};

}  // namespace driftgate::gpu::nccl
