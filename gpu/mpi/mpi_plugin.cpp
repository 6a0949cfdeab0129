#include <exception>
#include <memory>

#include "gpu/mpi/mpi_collective.hpp"

namespace driftgate::gpu::mpi {

namespace {

MpiCollective& self(void* handle) {
  return *static_cast<MpiCollective*>(handle);
}

std::int32_t open(const driftgate_collective_config* config, void** handle, driftgate_fault* fault) {
  auto opened = MpiCollective::open(config->timeout_ms, *fault);
  if (!opened) return static_cast<std::int32_t>(fault->kind);
  *handle = opened.release();
  return 0;
}

void place(void* handle, std::uint32_t* rank, std::uint32_t* size) {
  *rank = static_cast<std::uint32_t>(self(handle).rank());
  *size = static_cast<std::uint32_t>(self(handle).size());
}

std::int32_t all_gather(void* handle, std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes,
                        void* all, driftgate_fault* fault) {
  return self(handle).exchange(Kind::all_gather, timeout_ms, mine, bytes, all, *fault);
}

std::int32_t gather(void* handle, std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes, void* all,
                    driftgate_fault* fault) {
  void* out = self(handle).rank() == 0 ? all : nullptr;
  return self(handle).exchange(Kind::gather, timeout_ms, mine, bytes, out, *fault);
}

std::int32_t broadcast(void* handle, std::uint32_t timeout_ms, void* data, std::uint64_t bytes,
                       driftgate_fault* fault) {
  return self(handle).exchange(Kind::broadcast, timeout_ms, data, bytes, data, *fault);
}

void leave(void* handle, std::uint32_t error_code, std::int32_t rank, const char* cause) {
  self(handle).leave(error_code, rank, cause);
}

void close(void* handle, std::int32_t exit_code) {
  const std::unique_ptr<MpiCollective> owned(&self(handle));
  owned->close(exit_code);
}

constexpr driftgate_collective kTable = {sizeof(driftgate_collective),
                                         DRIFTGATE_COLLECTIVE_VERSION,
                                         "mpi",
                                         nullptr,
                                         open,
                                         place,
                                         all_gather,
                                         gather,
                                         broadcast,
                                         leave,
                                         close};

}  // namespace

}  // namespace driftgate::gpu::mpi

extern "C" __attribute__((visibility("default"))) const driftgate_collective* driftgate_collective_table() {
  return &driftgate::gpu::mpi::kTable;
}
