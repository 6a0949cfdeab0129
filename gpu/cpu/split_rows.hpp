#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/cpu/part_engine.hpp"
#include "gpu/ranks/shard_merge.hpp"

namespace driftgate::gpu::cpu {

/// Rows with more columns are measured in parts. Shorter rows may exceed the L2 cache too, but there are
/// enough of them to keep every core busy, and splitting costs more than it saves.
inline constexpr std::uint32_t kMostWholeColumns = 262'144;
/// The largest number of columns in a part.
inline constexpr std::uint32_t kPartColumns = 65'536;

/// Measures long rows in parts, by the passes and the merge of a vocabulary that is split over ranks
/// (docs/design/measurement.md, "Rows split over several engines"). The parts depend on the vocabulary alone
/// and are merged in order, so that figures are identical to the bit for any number of threads and of rows in
/// the batch. Where there are fewer rows than threads, all threads work on the parts of one batch; else each
/// thread works on rows of its own. See gpu/cpu/README.md, "Long rows".
class SplitRows {
 public:
  SplitRows(const TileKernel& kernel, std::uint32_t threads, std::uint32_t vocabulary, std::uint32_t top_k,
            std::uint32_t metrics, std::uint32_t part_columns = kPartColumns);

  [[nodiscard]] std::uint32_t vocabulary() const { return vocabulary_; }
  void measure(const driftgate_batch& batch, std::span<driftgate_row> results);

 private:
  /// Messages of the parts of some rows, in the format that ranks exchange.
  struct Exchange {
    std::vector<std::byte> messages;
    std::vector<driftgate_shard_row> merged;
    std::vector<driftgate_shard_terms> terms;
  };
  /// Rows of a batch that share one exchange.
  struct Rows {
    const driftgate_batch& batch;
    const ShardMerger& merger;
    Exchange& exchange;
    std::uint64_t first, count;
    std::size_t first_kept;
  };
  void prepare(const Rows& rows) const;
  [[nodiscard]] RowColumns columns(const Rows& rows, std::uint64_t row, std::uint32_t part) const;
  void pass1(const Rows& rows, std::uint64_t row, std::uint32_t part, PartEngine& engine);
  void pass2(const Rows& rows, std::uint64_t row, std::uint32_t part, PartEngine& engine);
  void finish(const Rows& rows, std::span<driftgate_row> results) const;
  void measure_together(const driftgate_batch& batch, const ShardMerger& merger,
                        std::span<driftgate_row> results);
  void measure_apart(const driftgate_batch& batch, const ShardMerger& merger,
                     std::span<driftgate_row> results);

  std::uint32_t vocabulary_, top_k_, parts_;
  bool core_;
  std::vector<PartEngine> engines_;  ///< one for each thread
  std::vector<Exchange> exchanges_;
  KeptParts kept_;
  ThreadPool pool_;
};

}  // namespace driftgate::gpu::cpu
