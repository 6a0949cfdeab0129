#pragma once

#include <memory>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/row_source.hpp"

namespace driftgate::gpu::fused {

/// Opens a row source that measures captures of hidden states on a backend. Rows for which the backend cannot
/// keep the permitted error are measured on the CPU with `threads`. Both captures must outlive it. Errors:
/// unsupported for a backend that does not measure hidden states, and those of Backend::open_hidden.
[[nodiscard]] schema::Result<std::unique_ptr<RowSource>> device_rows(const Capture& train, const Capture& inf,
                                                                     const MeasureOptions& options,
                                                                     std::uint32_t threads, Backend backend);

}  // namespace driftgate::gpu::fused
