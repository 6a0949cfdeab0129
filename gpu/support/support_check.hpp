#pragma once

#include <cstdint>

#include "gpu/capture/capture.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// Columns of each capture that a check reads at most, but at least kLeastSupportRows rows.
inline constexpr std::uint64_t kSupportColumns = std::uint64_t{1} << 26;
inline constexpr std::uint64_t kLeastSupportRows = 512, kMostSupportRows = 4'096;

/// Fills in SequenceRow::support: tests on rows spread evenly over the captures whether K_inf sampled the
/// tokens from the q of its capture. Does nothing where that cannot be tested: captures without full logits
/// in the memory of this machine, tokens that K_inf did not sample without a filter, or one kernel compared
/// with itself. `table` is that of these captures; `threads` 0: one for each processor.
void check_support(const Capture& train, const Capture& inf, std::uint32_t threads, MeasurementTable& table);

}  // namespace driftgate::gpu
