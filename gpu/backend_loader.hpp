#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gpu/backend.h"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr const char* kCudaLibrary = "libdriftgate_cuda.so";

/// An open engine of some backend. What was asked for is what is used: a backend that can not be had is
/// an error, never another backend in its place.
class Backend {
 public:
  /// `device`: "cpu", "cuda" (device 0) or "cuda:N". The CUDA backend is `library`, looked for beside the
  /// program and then where the loader looks. Errors: invalid_argument, unavailable (with the loader's or
  /// the driver's reason), unsupported (a library of another interface version).
  [[nodiscard]] static schema::Result<Backend> open(std::string_view device, std::uint32_t threads,
                                                    std::uint32_t top_k,
                                                    const std::string& library = kCudaLibrary);

  [[nodiscard]] std::string describe() const;
  /// Precondition: rows.size() == batch.rows.
  [[nodiscard]] schema::Result<void> measure(const driftgate_batch& batch, std::span<driftgate_row> rows);

 private:
  struct State;
  explicit Backend(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace driftgate::gpu
