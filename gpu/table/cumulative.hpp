#pragma once

#include <cstddef>
#include <vector>

#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// A distribution for plots: a share of shares[i] of the values is at most edges[i]. Both rise, and the last
/// share is 1. Empty without values.
struct Cumulative {
  std::vector<double> edges, shares;
};

/// The distribution of what the histogram counts, at the upper edges of its bins: at most `most` (≥ 2) of
/// them, evenly chosen, the last one always. Edges of infinite values are infinite.
[[nodiscard]] Cumulative cumulative(const Histogram& histogram, std::size_t most);

/// The distribution of values, none of them NaN, at the values themselves: at most `most` (≥ 2) of them.
[[nodiscard]] Cumulative cumulative(std::vector<double> values, std::size_t most);

}  // namespace driftgate::gpu
