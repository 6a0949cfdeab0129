#pragma once

#include <cstddef>

#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// The order of MeasurementTable::worst_rows: rows that are not finite, then kl_inf_train falling; ties by
/// row.
[[nodiscard]] bool worse(const WorstRow& a, const WorstRow& b);

/// Adds a table of other sequences over the same captures and options, whose rows are counted on from those
/// of `into`: sequences follow in their order, histograms and profiles add, the worst `top_rows` rows stay.
/// The result depends on the order of merging only by the rounding of the profile's sums. Errors:
/// not_comparable, which names what differs; a sequence in both, since a sequence is never split; tables of
/// captures that know only a part of each distribution, which one rank measures.
[[nodiscard]] schema::Result<void> merge(MeasurementTable& into, MeasurementTable other,
                                         std::size_t top_rows);

}  // namespace driftgate::gpu
