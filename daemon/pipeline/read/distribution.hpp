#pragma once

#include <memory>

#include "daemon/pipeline/read/insight.hpp"
#include "daemon/pipeline/read/recently_used.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::pipeline {

/// Parsed measurement tables by digest, weighed by their stored bytes.
using TableCache = RecentlyUsed<std::shared_ptr<const gpu::MeasurementTable>>;

/// The most edges of a distribution, and the most rows in "worst".
inline constexpr std::size_t kMaxEdges = 512;
inline constexpr std::size_t kMaxWorst = 50;

/// Insight::distribution. Reads tables through `cache`.
[[nodiscard]] schema::Result<View> distribution_view(store::Store& store, TableCache& cache,
                                                     const DistributionRequest& request);

}  // namespace driftgate::pipeline
