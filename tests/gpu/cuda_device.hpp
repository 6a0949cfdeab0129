#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <utility>

#include "gpu/backend_loader.hpp"

namespace driftgate::gpu::test {

#ifdef DRIFTGATE_CUDA_LIBRARY
inline constexpr const char* kLibrary = DRIFTGATE_CUDA_LIBRARY;
#else
inline constexpr const char* kLibrary = kCudaLibrary;
#endif

/// The backend, or none and a line that says why. Any failure but an absent device fails the test.
inline std::optional<Backend> device(std::uint32_t top_k, std::uint32_t metrics = DRIFTGATE_METRICS_ALL) {
  auto backend = Backend::open("cuda", 2, top_k, kLibrary, metrics);
  if (backend) return std::move(*backend);
  REQUIRE(backend.error().code == schema::ErrorCode::unavailable);
  MESSAGE("no-cuda-device: this test was skipped (" << backend.error().message << ")");
  return std::nullopt;
}

}  // namespace driftgate::gpu::test
