#pragma once

#include <chrono>
#include <cstdint>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/logit_check.hpp"
#include "gpu/drift.hpp"
#include "gpu/ranks/collective.hpp"
#include "gpu/ranks/rank_layout.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

/// The share of one rank in a measurement whose vocabulary is split (docs/design/measurement.md, "Rows split
/// over several engines").
struct SplitJob {
  const Capture& train;
  const Capture& inf;
  Backend& backend;
  Collective& collective;
  Accumulator* accumulator;  ///< at rank 0; null at other ranks
  LogitCheck& logits;        ///< sees the rows at rank 0
  std::uint32_t top_k = 10;
  std::uint32_t metrics = DRIFTGATE_METRICS_ALL;
  std::chrono::milliseconds timeout = kDefaultRankTimeout;
  std::uint32_t threads = 1;  ///< of the engine; the size of a batch depends on it
  Range rows{};               ///< that are measured; the accumulator expects these
};

/// Measures the columns of this rank of every row. A batch of rows goes through pass 1, an all_gather, the
/// merge on every rank, pass 2 and a gather; exchanges and merges run while the next batch is computed, with
/// at most kInFlight batches under way. `progress` and `sink` are called at rank 0. Errors: unsupported (a
/// capture mode or an engine that cannot be split, by name), invalid_argument (more ranks than columns), and
/// those of `measure` and of the collective.
[[nodiscard]] schema::Result<void> measure_split(const SplitJob& job, const Progress& progress,
                                                 const RowSink& sink);

}  // namespace driftgate::gpu
