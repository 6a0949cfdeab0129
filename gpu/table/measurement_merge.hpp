#pragma once

#include <cstddef>

#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// The order of MeasurementTable::worst_rows: nonfinite rows first, then by kl_inf_train, largest first, then
/// by row.
[[nodiscard]] bool worse(const WorstRow& a, const WorstRow& b);

/// Whether two tables have the same captures' identities, options, slices and kind of device, and whole
/// distributions.
[[nodiscard]] bool mergeable(const MeasurementTable& a, const MeasurementTable& b);

/// Adds to `into` the table of the rows that follow. Its profile holds the sums of `into` already, so that
/// the result has the bits of a table that was accumulated in one go. Precondition: mergeable(into, next),
/// and no sequence is in both.
void append_continued(MeasurementTable& into, MeasurementTable next, std::size_t top_rows);

/// Adds to `into` the table of other sequences that was measured on the same captures with the same options.
/// Its rows are numbered after those of `into`, its sequences are appended, histograms and profiles are
/// added, and the worst `top_rows` rows of both are kept. The order of merging changes only the rounding of
/// sums in the profile. Errors: not_comparable, naming what differs, a sequence that is in both tables (a
/// sequence is never split), or that the captures hold only parts of distributions (one rank measures those).
[[nodiscard]] schema::Result<void> merge(MeasurementTable& into, MeasurementTable other,
                                         std::size_t top_rows);

}  // namespace driftgate::gpu
