#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

/// How the work is split over ranks.
enum class Shard : std::uint8_t {
  rows,  ///< each rank measures whole sequences; aggregates are merged at the end
  vocab  ///< each rank holds columns of every row; see vocabulary_split.hpp
};

struct RankOptions {
  Shard shard = Shard::rows;
  std::chrono::milliseconds timeout = kDefaultRankTimeout;  ///< of each wait for the other ranks
  bool nccl = false;  ///< exchange over NCCL between CUDA devices; the other collective only sets it up
};

/// Runs the part of `measure` that belongs to one rank, on `options.device`. Every rank must have opened the
/// same captures with the same options, which is checked first. Returns the table at rank 0 and nothing at
/// other ranks. The ranks exchange their progress while they measure, so that a stalled rank is detected
/// within the timeout however long the measurement takes. `progress` and `sink` are called at rank 0 only. On
/// an error this rank leaves the collective. Errors besides those of `measure` and `measure_split`:
/// not_comparable (a rank, named, that has other captures or options), unsupported (`sink` when rows are
/// split).
[[nodiscard]] schema::Result<std::optional<MeasurementTable>> measure_rank(
    Collective& collective, const Capture& train, const Capture& inf, const Corpus* corpus,
    const MeasureOptions& options, const RankOptions& ranks, const Progress& progress = {},
    const RowSink& sink = {});

struct ThreadRanksTable {
  schema::Result<MeasurementTable> table;
  std::uint32_t abandoned = 0;  ///< threads that did not end: see run_in_threads
};

/// Measures in this process with one group of threads for each of `devices` ("cpu", "cuda:0", …).
/// `options.threads` are divided among the ranks. If threads are abandoned, the captures must live until the
/// process ends.
[[nodiscard]] ThreadRanksTable measure_in_threads(const Capture& train, const Capture& inf,
                                                  const Corpus* corpus, const MeasureOptions& options,
                                                  const RankOptions& ranks,
                                                  const std::vector<std::string>& devices,
                                                  const Progress& progress = {}, const RowSink& sink = {});

/// The number of threads of each rank when `ranks` ranks share this machine and `threads` are requested (0:
/// one for each processor).
[[nodiscard]] std::uint32_t threads_of_rank(std::uint32_t threads, std::uint32_t ranks);

}  // namespace driftgate::gpu
