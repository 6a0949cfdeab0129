#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/ranks/collective_loader.hpp"

// Where the build makes none, what the loader finds.
#ifndef DRIFTGATE_CUDA_LIBRARY
#define DRIFTGATE_CUDA_LIBRARY driftgate::gpu::kCudaLibrary
#endif
#ifndef DRIFTGATE_NCCL_LIBRARY
#define DRIFTGATE_NCCL_LIBRARY driftgate::gpu::kNcclLibrary
#endif

namespace driftgate::gpu::test {

/// Where a library is: what the environment says under `name`, for tests that were built on another machine,
/// else where the build put it.
inline std::string library_of(const char* name, const char* built) {
  const char* const said = std::getenv(name);
  return said == nullptr ? built : said;
}
inline std::string cuda_library() {
  return library_of("DRIFTGATE_CUDA_LIBRARY", DRIFTGATE_CUDA_LIBRARY);
}
inline std::string nccl_library() {
  return library_of("DRIFTGATE_NCCL_LIBRARY", DRIFTGATE_NCCL_LIBRARY);
}

/// The backend, or nothing and a message that says why. Any failure other than an absent device fails the
/// test.
inline std::optional<Backend> device(std::uint32_t top_k, std::uint32_t metrics = DRIFTGATE_METRICS_ALL) {
  auto backend = Backend::open("cuda", 2, top_k, cuda_library(), metrics);
  if (backend) return std::move(*backend);
  REQUIRE(backend.error().code == schema::ErrorCode::unavailable);
  MESSAGE("no-cuda-device: this test was skipped (" << backend.error().message << ")");
  return std::nullopt;
}

}  // namespace driftgate::gpu::test
