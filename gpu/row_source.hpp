#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gpu/backend/backend.h"
#include "gpu/backend/backend_loader.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// Computes the figures of the rows of two captures, one range of rows after the other.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// The number of rows, from `row` on, that one call of `measure` may cover; at least 1.
  virtual std::uint64_t available(std::uint64_t row) = 0;
  /// Writes the figures of rows [row, row + out.size()) to `out`.
  virtual schema::Result<void> measure(std::uint64_t row, std::span<driftgate_row> out) = 0;
  /// What computes the figures, as far as their bits depend on it.
  [[nodiscard]] virtual std::string engine() const = 0;
  /// The number of rows so far that the device left to the CPU.
  [[nodiscard]] virtual std::uint64_t rows_on_cpu() const { return 0; }
};

/// Opens the row source for captures that hold whole distributions: modes full and hidden. Both captures must
/// outlive it. Errors: unsupported for other modes, and those of Backend::open and fused::hidden_rows.
[[nodiscard]] schema::Result<std::unique_ptr<RowSource>> open_rows(const Capture& train, const Capture& inf,
                                                                   const MeasureOptions& options);

/// Errors: invalid_argument where a capture is in the memory of a device and `device` is the CPU.
[[nodiscard]] schema::Result<void> check_reachable(const Capture& train, const Capture& inf,
                                                   const std::string& device);
/// The row source for captures of full logits on a backend that is open. The captures must outlive it; the
/// backend's engine is shared, for one thread at a time.
[[nodiscard]] std::unique_ptr<RowSource> logit_rows(const Capture& train, const Capture& inf,
                                                    Backend backend);

}  // namespace driftgate::gpu
