#pragma once

#include <cstdint>
#include <memory>

#include "gpu/ranks/collective_plugin.h"

namespace driftgate::gpu::nccl {

/// Fills in the fault and returns its kind.
std::int32_t fault_of(driftgate_fault& fault, std::uint32_t kind, const char* what, const char* reason);

/// A collective over the devices of an NCCL communicator. Bytes are copied to the device, exchanged and
/// copied back. A wait polls the stream and the asynchronous error of the communicator; at the deadline the
/// communicator is aborted. NCCL does not report which rank was missing.
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
  /// Ends a wait in another thread and aborts the communicator.
  void leave();

 private:
  struct State;  ///< holds the types of NCCL and CUDA
  NcclCollective();

  std::uint32_t rank_ = 0, size_ = 1;
  std::unique_ptr<State> state_;
};

}  // namespace driftgate::gpu::nccl
