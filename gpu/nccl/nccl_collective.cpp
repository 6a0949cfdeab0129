#include "gpu/nccl/nccl_collective.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

namespace driftgate::gpu::nccl {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kPause{20};
constexpr std::uint32_t kEndTimeout_ms = 2'000;

std::int32_t cuda_fault(driftgate_fault& fault, const char* what, cudaError_t error) {
  return fault_of(fault, DRIFTGATE_FAULT_LIBRARY, what, cudaGetErrorString(error));
}

std::int32_t nccl_fault(driftgate_fault& fault, const char* what, ncclResult_t result) {
  return fault_of(fault, DRIFTGATE_FAULT_LIBRARY, what, ncclGetErrorString(result));
}

bool accepted(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

/// A block of device memory that only grows.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (data_ != nullptr) cudaFree(data_);
  }
  [[nodiscard]] cudaError_t reserve(std::size_t bytes) {
    if (bytes <= bytes_) return cudaSuccess;
    if (data_ != nullptr) cudaFree(data_);
    data_ = nullptr;
    bytes_ = 0;
    const cudaError_t error = cudaMalloc(&data_, bytes);
    if (error == cudaSuccess) bytes_ = bytes;
    return error;
  }
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

struct NcclCollective::State {
  using Enqueue = std::function<ncclResult_t()>;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();
  /// Copies `in` bytes from `from` to the device, runs `enqueue`, waits for it, and copies `out` bytes to
  /// `to`.
  std::int32_t run(std::uint32_t timeout_ms, const void* from, std::uint64_t in, void* to, std::uint64_t out,
                   const Enqueue& enqueue, driftgate_fault& fault);
  /// Polls until `over` returns success, the deadline has passed, an asynchronous error occurs or `leave` is
  /// called.
  std::int32_t wait(std::uint32_t timeout_ms, const std::function<cudaError_t()>& over,
                    driftgate_fault& fault);
  /// Allocates device memory; returns 0 or the kind of the fault.
  std::int32_t reserve(std::uint64_t in, std::uint64_t out, driftgate_fault& fault);
  void abort();

  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  DeviceBuffer send, receive;
  std::atomic<bool> left = false;
};

std::int32_t fault_of(driftgate_fault& fault, std::uint32_t kind, const char* what, const char* reason) {
  fault = {};
  fault.kind = kind;
  fault.rank = -1;
  std::snprintf(fault.cause, sizeof(fault.cause), "%s: %s", what, reason);
  return static_cast<std::int32_t>(kind);
}

NcclCollective::NcclCollective() : state_(std::make_unique<State>()) {}
NcclCollective::~NcclCollective() = default;

void NcclCollective::leave() {
  state_->left = true;
}

std::int32_t NcclCollective::State::reserve(std::uint64_t in, std::uint64_t out, driftgate_fault& fault) {
  cudaSetDevice(device);
  cudaError_t error = send.reserve(in);
  if (error == cudaSuccess) error = receive.reserve(out);
  return error == cudaSuccess ? 0 : cuda_fault(fault, "cudaMalloc", error);
}

std::unique_ptr<NcclCollective> NcclCollective::open(const driftgate_collective_config& config,
                                                     driftgate_fault& fault) {
  std::unique_ptr<NcclCollective> self(new NcclCollective);
  self->rank_ = config.rank;
  self->size_ = config.size;
  self->state_->device = config.device;
  if (const cudaError_t error = cudaSetDevice(config.device); error != cudaSuccess) {
    fault_of(fault, DRIFTGATE_FAULT_ABSENT, "the CUDA device of this rank", cudaGetErrorString(error));
    return nullptr;
  }
  if (const cudaError_t error = cudaStreamCreateWithFlags(&self->state_->stream, cudaStreamNonBlocking);
      error != cudaSuccess) {
    cuda_fault(fault, "cudaStreamCreateWithFlags", error);
    return nullptr;
  }
  ncclUniqueId id;
  static_assert(sizeof(id) == DRIFTGATE_COLLECTIVE_ID_BYTES);
  std::memcpy(&id, config.id, sizeof(id));
  ncclConfig_t options = NCCL_CONFIG_INITIALIZER;
  options.blocking = 0;  // so that the initialisation can time out too
  const ncclResult_t started = ncclCommInitRankConfig(&self->state_->comm, static_cast<int>(config.size), id,
                                                      static_cast<int>(config.rank), &options);
  if (!accepted(started)) {
    nccl_fault(fault, "ncclCommInitRankConfig", started);
    return nullptr;
  }
  if (self->state_->wait(
          config.timeout_ms, [] { return cudaSuccess; }, fault) != 0)
    return nullptr;
  return self;
}

NcclCollective::State::~State() {
  cudaSetDevice(device);
  if (comm != nullptr && !left) {
    driftgate_fault ignored;
    const bool finalised =
        accepted(ncclCommFinalize(comm)) && wait(
                                                kEndTimeout_ms, [] { return cudaSuccess; }, ignored) == 0;
    if (finalised && comm != nullptr) {
      ncclCommDestroy(comm);
      comm = nullptr;
    }
  }
  abort();
  if (stream != nullptr) cudaStreamDestroy(stream);
}

void NcclCollective::State::abort() {
  if (comm != nullptr) ncclCommAbort(comm);
  comm = nullptr;
}

std::int32_t NcclCollective::State::wait(std::uint32_t timeout_ms, const std::function<cudaError_t()>& over,
                                         driftgate_fault& fault) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const bool late = Clock::now() >= deadline;
    ncclResult_t state = ncclSuccess;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) state = asked;
    if (!accepted(state)) {
      abort();
      return nccl_fault(fault, "the communicator failed", state);
    }
    const cudaError_t done = state == ncclInProgress ? cudaErrorNotReady : over();
    if (done == cudaSuccess) return 0;
    if (done != cudaErrorNotReady) {
      abort();
      return cuda_fault(fault, "the stream failed", done);
    }
    if (left) {
      abort();
      return fault_of(fault, DRIFTGATE_FAULT_LIBRARY, "the wait ended", "this rank has left");
    }
    if (late) {
      abort();
      return fault_of(fault, DRIFTGATE_FAULT_DEADLINE, "the communicator was aborted", "deadline");
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::int32_t NcclCollective::State::run(std::uint32_t timeout_ms, const void* from, std::uint64_t in,
                                        void* to, std::uint64_t out, const Enqueue& enqueue,
                                        driftgate_fault& fault) {
  if (comm == nullptr)
    return fault_of(fault, DRIFTGATE_FAULT_LIBRARY, "the communicator", "was aborted by an earlier error");
  if (left) {
    abort();
    return fault_of(fault, DRIFTGATE_FAULT_LIBRARY, "the call was not started", "this rank has left");
  }
  // The current device is a property of the calling thread, and calls come from several threads.
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess)
    return cuda_fault(fault, "cudaSetDevice", error);
  if (in > 0) {
    const cudaError_t error = cudaMemcpyAsync(send.data(), from, in, cudaMemcpyHostToDevice, stream);
    if (error != cudaSuccess) return cuda_fault(fault, "copy to the device", error);
  }
  if (const ncclResult_t result = enqueue(); !accepted(result)) {
    abort();
    return nccl_fault(fault, "NCCL", result);
  }
  // A call on a nonblocking communicator has been enqueued once its state is no longer ncclInProgress.
  if (const auto kind = wait(
          timeout_ms, [this] { return cudaStreamQuery(stream); }, fault);
      kind != 0)
    return kind;
  if (out == 0) return 0;
  // Started only now: a copy to pageable memory blocks until it is done, so that behind the exchange it would
  // wait for the other ranks without a deadline.
  cudaError_t error = cudaMemcpyAsync(to, receive.data(), out, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? 0 : cuda_fault(fault, "copy from the device", error);
}

std::int32_t NcclCollective::all_gather(std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes,
                                        void* all, driftgate_fault& fault) {
  State& state = *state_;
  if (const auto kind = state.reserve(bytes, bytes * size_, fault); kind != 0) return kind;
  return state.run(
      timeout_ms, mine, bytes, all, bytes * size_,
      [&] {
        return ncclAllGather(state.send.data(), state.receive.data(), bytes, ncclUint8, state.comm,
                             state.stream);
      },
      fault);
}

std::int32_t NcclCollective::gather(std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes,
                                    void* all, driftgate_fault& fault) {
  State& state = *state_;
  if (const auto kind = state.reserve(bytes, rank_ == 0 ? bytes * size_ : 1, fault); kind != 0) return kind;
  const auto enqueue = [&] {
    ncclGroupStart();
    ncclSend(state.send.data(), bytes, ncclUint8, 0, state.comm, state.stream);
    for (std::uint32_t other = 0; other < size_ && rank_ == 0; ++other) {
      auto* place = static_cast<std::byte*>(state.receive.data()) + other * bytes;
      ncclRecv(place, bytes, ncclUint8, static_cast<int>(other), state.comm, state.stream);
    }
    return ncclGroupEnd();  // returns the errors of the calls in the group
  };
  return state.run(timeout_ms, mine, bytes, all, rank_ == 0 ? bytes * size_ : 0, enqueue, fault);
}

std::int32_t NcclCollective::broadcast(std::uint32_t timeout_ms, void* data, std::uint64_t bytes,
                                       driftgate_fault& fault) {
  State& state = *state_;
  if (const auto kind = state.reserve(bytes, bytes, fault); kind != 0) return kind;
  return state.run(
      timeout_ms, data, bytes, data, bytes,
      [&] {
        return ncclBroadcast(state.send.data(), state.receive.data(), bytes, ncclUint8, 0, state.comm,
                             state.stream);
      },
      fault);
}

}  // namespace driftgate::gpu::nccl
