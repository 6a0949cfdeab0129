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
  bool nccl = false;  ///< exchange over NCCL, between CUDA devices; the collective only starts it
};

/// One rank's part of `measure`; `options.device` is this rank's. Every rank opened the same captures and was
/// given the same options, which is checked first. The table is rank 0's; elsewhere nothing. While rows are
/// measured the ranks tell each other how far they are, so that one that stalls is noticed within the
/// timeout however long the whole takes. `progress` and `sink` are called at rank 0 alone. On an error this
/// rank leaves the collective. Errors beside those of `measure` and `measure_split`: not_comparable (ranks
/// that see other captures or options, by rank), unsupported (`sink` when rows are split).
[[nodiscard]] schema::Result<std::optional<MeasurementTable>> measure_rank(
    Collective& collective, const Capture& train, const Capture& inf, const Corpus* corpus,
    const MeasureOptions& options, const RankOptions& ranks, const Progress& progress = {},
    const RowSink& sink = {});

struct ThreadRanksTable {
  schema::Result<MeasurementTable> table;
  std::uint32_t abandoned = 0;  ///< threads left behind: see run_in_threads
};

/// Measures with one thread group for each of `devices` ("cpu", "cuda:0" …) in this process.
/// `options.threads` are shared out among the ranks. The captures must live as long as the process when a
/// thread is left behind.
[[nodiscard]] ThreadRanksTable measure_in_threads(const Capture& train, const Capture& inf,
                                                  const Corpus* corpus, const MeasureOptions& options,
                                                  const RankOptions& ranks,
                                                  const std::vector<std::string>& devices,
                                                  const Progress& progress = {}, const RowSink& sink = {});

/// Threads of one rank when `ranks` ranks share this machine and `threads` were asked for (0 = one for each
/// processor).
[[nodiscard]] std::uint32_t threads_of_rank(std::uint32_t threads, std::uint32_t ranks);

}  // namespace driftgate::gpu
