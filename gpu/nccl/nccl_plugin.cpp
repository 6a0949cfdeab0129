#include <nccl.h>

#include <cstring>
#include <memory>

#include "gpu/nccl/nccl_collective.hpp"

namespace driftgate::gpu::nccl {

namespace {

NcclCollective& self(void* handle) {
  return *static_cast<NcclCollective*>(handle);
}

std::int32_t make_id(unsigned char* out, driftgate_fault* fault) {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess)
    return fault_of(*fault, DRIFTGATE_FAULT_LIBRARY, "ncclGetUniqueId", ncclGetErrorString(result));
  std::memcpy(out, &id, sizeof(id));
  return 0;
}

std::int32_t open(const driftgate_collective_config* config, void** handle, driftgate_fault* fault) {
  auto opened = NcclCollective::open(*config, *fault);
  if (!opened) return static_cast<std::int32_t>(fault->kind);
  *handle = opened.release();
  return 0;
}

void place(void* handle, std::uint32_t* rank, std::uint32_t* size) {
  *rank = self(handle).rank();
  *size = self(handle).size();
}

std::int32_t all_gather(void* handle, std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes,
                        void* all, driftgate_fault* fault) {
  return self(handle).all_gather(timeout_ms, mine, bytes, all, *fault);
}

std::int32_t gather(void* handle, std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes, void* all,
                    driftgate_fault* fault) {
  return self(handle).gather(timeout_ms, mine, bytes, all, *fault);
}

std::int32_t broadcast(void* handle, std::uint32_t timeout_ms, void* data, std::uint64_t bytes,
                       driftgate_fault* fault) {
  return self(handle).broadcast(timeout_ms, data, bytes, *fault);
}

void leave(void* handle, std::uint32_t, std::int32_t, const char*) {
  self(handle).leave();
}

void close(void* handle, std::int32_t) {
  delete &self(handle);
}

constexpr driftgate_collective kTable = {sizeof(driftgate_collective),
                                         DRIFTGATE_COLLECTIVE_VERSION,
                                         "nccl",
                                         make_id,
                                         open,
                                         place,
                                         all_gather,
                                         gather,
                                         broadcast,
                                         leave,
                                         close};

}  // namespace

}  // namespace driftgate::gpu::nccl

extern "C" __attribute__((visibility("default"))) const driftgate_collective* driftgate_collective_table() {
  return &driftgate::gpu::nccl::kTable;
}
