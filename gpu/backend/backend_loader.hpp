#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gpu/backend/backend.h"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr const char* kCudaLibrary = "libdriftgate_cuda.so";

/// An open engine of a backend. The requested backend is used or the call fails: there is no fallback to
/// another one.
class Backend {
 public:
  /// `device`: "cpu", "cuda" (device 0) or "cuda:N". The CUDA backend is `library`, which is searched beside
  /// the program, then beside the library that holds this code, then along the search path of the loader.
  /// `metrics`: DRIFTGATE_METRICS_ALL or DRIFTGATE_METRICS_CORE. Errors: invalid_argument, unavailable (with
  /// the reason of the loader or the driver), unsupported (a library of another interface version).
  [[nodiscard]] static schema::Result<Backend> open(std::string_view device, std::uint32_t threads,
                                                    std::uint32_t top_k,
                                                    const std::string& library = kCudaLibrary,
                                                    std::uint32_t metrics = DRIFTGATE_METRICS_ALL);

  [[nodiscard]] std::string describe() const;
  /// The part of the description that the bits of the figures depend on: neither which device of a kind it is
  /// nor how many threads there are.
  [[nodiscard]] std::string arithmetic() const;
  /// Precondition: rows.size() == batch.rows.
  [[nodiscard]] schema::Result<void> measure(const driftgate_batch& batch, std::span<driftgate_row> rows);

  /// Whether the engine evaluates parts of rows; a precondition of shard_pass1 and shard_pass2.
  [[nodiscard]] bool can_shard() const;
  /// Preconditions: one element of `partials` and 2·max(top_k, 2) of `top` for each row of the batch.
  [[nodiscard]] schema::Result<void> shard_pass1(const driftgate_batch& batch, const driftgate_shard& shard,
                                                 std::span<driftgate_shard_partial> partials,
                                                 std::span<driftgate_top_entry> top);
  [[nodiscard]] schema::Result<void> shard_pass2(const driftgate_batch& batch, const driftgate_shard& shard,
                                                 std::span<const driftgate_shard_row> rows,
                                                 std::span<driftgate_shard_terms> terms);

  /// Whether the engine measures rows of hidden states; a precondition of open_hidden and measure_hidden.
  [[nodiscard]] bool can_measure_hidden() const;
  [[nodiscard]] schema::Result<void> open_hidden(const driftgate_hidden_heads& heads);
  /// Rows with status DRIFTGATE_ROW_NOT_MEASURED have no figures and must be measured by another engine.
  /// Preconditions: open_hidden succeeded; rows.size() == batch.rows.
  [[nodiscard]] schema::Result<void> measure_hidden(const driftgate_hidden_batch& batch,
                                                    std::span<driftgate_row> rows);

 private:
  struct State;
  explicit Backend(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace driftgate::gpu
