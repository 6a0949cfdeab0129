#pragma once

#include <memory>

#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/row_source.hpp"

namespace driftgate::gpu::fused {

/// Opens a row source for two captures of hidden states, on the CPU or on options.device. Logits are formed
/// tile by tile and never stored (docs/design/measurement.md, "Hidden states"). Both captures must outlive
/// it. Errors: not_comparable for hidden states of different widths, and those of Backend::open and
/// device_rows.
[[nodiscard]] schema::Result<std::unique_ptr<RowSource>> hidden_rows(const Capture& train, const Capture& inf,
                                                                     const MeasureOptions& options,
                                                                     std::uint32_t threads);

}  // namespace driftgate::gpu::fused
