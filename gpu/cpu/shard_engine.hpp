#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/cpu/part_engine.hpp"

namespace driftgate::gpu::cpu {

/// Limit on the bytes that a slot keeps of its batch between the passes. Pass 2 reads the logits of further
/// rows again.
inline constexpr std::size_t kMaxKeptBytes = std::size_t{256} << 20;

/// Evaluates parts of the rows of a batch (gpu/backend/backend_shard.h), each part with one of its threads.
class ShardEngine {
 public:
  ShardEngine(const TileKernel& kernel, std::uint32_t threads, std::uint32_t top_k,
              std::uint32_t metrics = DRIFTGATE_METRICS_ALL);

  void pass1(const driftgate_batch& batch, const driftgate_shard& shard,
             std::span<driftgate_shard_partial> partials, std::span<driftgate_top_entry> top);
  /// Whether the last pass 1 of the slot had a batch of this shape.
  [[nodiscard]] bool follows(const driftgate_batch& batch, const driftgate_shard& shard) const;
  void pass2(const driftgate_batch& batch, const driftgate_shard& shard,
             std::span<const driftgate_shard_row> rows, std::span<driftgate_shard_terms> terms);

 private:
  struct Slot {
    std::uint64_t rows = 0, kept_rows = 0;
    std::uint32_t vocabulary = 0, first_column = 0;
    KeptParts kept;
  };
  struct Thread {
    PartEngine engine;
    KeptParts spare;  ///< of a row that the slot does not keep
    std::vector<driftgate_top_entry> top;
  };

  void prepare(Slot& slot, const driftgate_batch& batch, const driftgate_shard& shard);
  template <typename Work>
  void for_each_row(std::uint64_t rows, Work work);

  std::size_t places_;  ///< entries in both top lists of a row together
  bool core_;
  std::vector<Thread> threads_;
  std::array<Slot, DRIFTGATE_SHARD_SLOTS> slots_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace driftgate::gpu::cpu
