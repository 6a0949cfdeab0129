#pragma once

#include <memory>

#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/row_source.hpp"

namespace driftgate::gpu::fused {

/// Figures of two captures of hidden states: logits are formed tile by tile and never stored, on the CPU or
/// on options.device. Errors: not_comparable for hidden states of different widths, what Backend::open and
/// device_rows say. Both captures outlive the source.
[[nodiscard]] schema::Result<std::unique_ptr<RowSource>> hidden_rows(const Capture& train, const Capture& inf,
                                                                     const MeasureOptions& options,
                                                                     std::uint32_t threads);

}  // namespace driftgate::gpu::fused
