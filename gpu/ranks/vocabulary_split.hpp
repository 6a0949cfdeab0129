#pragma once

#include <chrono>
#include <cstdint>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/ranks/collective.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

/// One rank's share of a measurement whose vocabulary is split (docs/design/measurement.md, "Rows split over
/// several engines").
struct SplitJob {
  const Capture& train;
  const Capture& inf;
  Backend& backend;
  Collective& collective;
  Accumulator* accumulator;  ///< of rank 0; null elsewhere
  std::uint32_t top_k = 10;
  std::uint32_t metrics = DRIFTGATE_METRICS_ALL;
  std::chrono::milliseconds timeout = kDefaultRankTimeout;
  std::uint32_t threads = 1;  ///< of the engine: each has a cache for its rows of a batch
};

/// Measures every row over the columns of this rank. Batches of rows go through pass 1, one all_gather, the
/// merge on every rank, pass 2 and one gather; exchanges and the merge run beside the next batch's
/// computation, with at most kInFlight batches under way. `progress` and `sink` are of rank 0. Errors:
/// unsupported (a mode or an engine that can not be split, by name), invalid_argument (more ranks than
/// columns), those of `measure`, those of the collective.
[[nodiscard]] schema::Result<void> measure_split(const SplitJob& job, const Progress& progress,
                                                 const RowSink& sink);

}  // namespace driftgate::gpu
