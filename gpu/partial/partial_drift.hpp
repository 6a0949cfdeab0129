#pragma once

#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"

namespace driftgate::gpu {

/// `measure` for comparable captures that hold only a part of each distribution (docs/design/measurement.md,
/// "Partly known distributions"). `wants_rows`: whether the caller asked for the figures of single rows.
/// Errors: those of `measure`; unsupported for `wants_rows`, since the figures of rows are bounds here, and
/// for a device other than the CPU.
[[nodiscard]] schema::Result<MeasurementTable> measure_partial(const Capture& train, const Capture& inf,
                                                               const Corpus* corpus,
                                                               const MeasureOptions& options,
                                                               const Progress& progress, bool wants_rows);

}  // namespace driftgate::gpu
