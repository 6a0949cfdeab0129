#pragma once

#include "gpu/capture/capture.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

inline constexpr std::uint64_t kMostColumnRows = 128;
inline constexpr std::uint32_t kMostColumnBlocks = 256;

/// Fills in MeasurementTable::columns from rows spread evenly over captures of full logits in the memory of
/// this machine; does nothing for others. Rows with logits that are infinite in one capture alone, or NaN,
/// are left out; columns that both captures mask have no part. `table` is that of these captures.
void check_columns(const Capture& train, const Capture& inf, MeasurementTable& table);

}  // namespace driftgate::gpu
