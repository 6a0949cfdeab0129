#pragma once

#include <memory>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/row_source.hpp"

namespace driftgate::gpu::fused {

/// Figures of two captures of hidden states by a backend that forms the logits itself. Rows whose figures it
/// cannot have at the accuracy that is asked for are measured on the CPU, with `threads`. Errors:
/// unsupported for a backend that does not measure hidden states, what it says of the heads. Both captures
/// outlive the source.
[[nodiscard]] schema::Result<std::unique_ptr<RowSource>> device_rows(const Capture& train, const Capture& inf,
                                                                     const MeasureOptions& options,
                                                                     std::uint32_t threads, Backend backend);

}  // namespace driftgate::gpu::fused
