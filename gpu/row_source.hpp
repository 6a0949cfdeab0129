#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gpu/backend/backend.h"
#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// Where the figures of two captures' rows come from.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// How many rows from `row` on one call of `measure` may take; at least 1.
  virtual std::uint64_t available(std::uint64_t row) = 0;
  /// Rows [row, row + out.size()).
  virtual schema::Result<void> measure(std::uint64_t row, std::span<driftgate_row> out) = 0;
  /// Of the rows so far those that a device left to the CPU.
  [[nodiscard]] virtual std::uint64_t rows_on_cpu() const { return 0; }
};

/// What measures captures of whole distributions: full and hidden mode. Errors: unsupported for the other
/// modes, what Backend::open and fused::hidden_rows say. The captures outlive the source.
[[nodiscard]] schema::Result<std::unique_ptr<RowSource>> open_rows(const Capture& train, const Capture& inf,
                                                                   const MeasureOptions& options);

}  // namespace driftgate::gpu
