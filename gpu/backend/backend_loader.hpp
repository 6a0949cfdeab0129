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

/// An open engine of some backend. What was asked for is what is used: a backend that cannot be had is
/// an error, never another backend in its place.
class Backend {
 public:
  /// `device`: "cpu", "cuda" (device 0) or "cuda:N". The CUDA backend is `library`, looked for beside the
  /// program and then where the loader looks. `metrics`: DRIFTGATE_METRICS_ALL or _CORE. Errors:
  /// invalid_argument, unavailable (with the loader's or the driver's reason), unsupported (a library of
  /// another interface version).
  [[nodiscard]] static schema::Result<Backend> open(std::string_view device, std::uint32_t threads,
                                                    std::uint32_t top_k,
                                                    const std::string& library = kCudaLibrary,
                                                    std::uint32_t metrics = DRIFTGATE_METRICS_ALL);

  [[nodiscard]] std::string describe() const;
  /// Precondition: rows.size() == batch.rows.
  [[nodiscard]] schema::Result<void> measure(const driftgate_batch& batch, std::span<driftgate_row> rows);

  /// Whether the engine evaluates parts of rows. Precondition of the two calls below.
  [[nodiscard]] bool can_shard() const;
  /// Preconditions: one partial for each row of the batch, 2·max(top_k, 2) top entries for each.
  [[nodiscard]] schema::Result<void> shard_pass1(const driftgate_batch& batch, const driftgate_shard& shard,
                                                 std::span<driftgate_shard_partial> partials,
                                                 std::span<driftgate_top_entry> top);
  [[nodiscard]] schema::Result<void> shard_pass2(const driftgate_batch& batch, const driftgate_shard& shard,
                                                 std::span<const driftgate_shard_row> rows,
                                                 std::span<driftgate_shard_terms> terms);

  /// Whether the engine measures rows of hidden states. Precondition of the two calls below.
  [[nodiscard]] bool can_measure_hidden() const;
  [[nodiscard]] schema::Result<void> open_hidden(const driftgate_hidden_heads& heads);
  /// Rows with the status DRIFTGATE_ROW_NOT_MEASURED are to be measured another way. Preconditions:
  /// open_hidden succeeded; rows.size() == batch.rows.
  [[nodiscard]] schema::Result<void> measure_hidden(const driftgate_hidden_batch& batch,
                                                    std::span<driftgate_row> rows);

 private:
  struct State;
  explicit Backend(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace driftgate::gpu
