#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "gpu/cuda/device_memory.hpp"
#include "gpu/cuda/kernels.hpp"

namespace driftgate::gpu::cuda {

/// What to compute for a batch, and where to write it.
struct Job {
  Mode mode = Mode::all;
  driftgate_row* rows = nullptr;           ///< written in modes all and core
  const driftgate_shard* shard = nullptr;  ///< in the other two
  driftgate_shard_partial* partials = nullptr;
  driftgate_top_entry* top = nullptr;
  const driftgate_shard_row* merged = nullptr;
  driftgate_shard_terms* terms = nullptr;
};

/// Measures batches of any size in bounded memory: rows are processed in chunks through two slots, each with
/// its own stream and buffers, so that copying one chunk overlaps with measuring the other. Logits in device
/// memory are measured in place, unless their rows are not aligned to 16 bytes.
class RowPipeline {
 public:
  RowPipeline(std::uint32_t top_k, std::uint32_t threads) : top_k_(top_k), threads_(threads) {}
  /// Measures a batch; `batch` and `job` must have been checked. Throws CudaError.
  void run(const driftgate_batch& batch, const Job& job);

 private:
  static constexpr std::size_t kSlots = 2;
  /// Bytes of logits of both kernels in a chunk: several chunks make a batch, so that copying overlaps, and
  /// each takes far longer to copy than to measure.
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{8} << 20;
  static constexpr std::uint64_t kMaxChunkRows = 65'536;  ///< bounds records and results
  static constexpr std::uint32_t kMaxCopyThreads = 8;

  struct Slot {
    Stream stream;
    Buffer host{Where::pinned}, device{Where::device};  ///< logits, tokens, merged sums
    Buffer scratch{Where::device};
    Buffer device_results{Where::device}, host_results{Where::pinned};
    std::uint64_t first = 0, rows = 0;  ///< of the chunk under way; 0 rows when there is none
  };
  struct Side {
    const unsigned char* data;
    std::uint64_t stride, row_bytes, pitch;
    Place place;
    bool aligned;
    [[nodiscard]] bool direct() const { return place == Place::device && aligned; }
  };
  /// Byte offsets in the buffers of a chunk.
  struct Layout {
    std::uint64_t inf = 0, tokens = 0, merged = 0, end = 0;
    std::uint64_t top = 0, results_end = 0;
  };

  static Side side_of(const driftgate_logits& logits, std::uint32_t vocabulary);
  [[nodiscard]] std::uint64_t rows_of_chunk(const driftgate_batch& batch) const;
  [[nodiscard]] Layout layout_of(std::uint64_t rows) const;
  void start_chunk(Slot& slot, const driftgate_batch& batch, const Job& job);
  const unsigned char* bring(Slot& slot, const Side& side, std::uint64_t offset) const;
  void stage(const Side& side, std::uint64_t first, std::uint64_t rows, unsigned char* to) const;
  BatchScratch scratch_for(Slot& slot) const;
  void finish_chunk(Slot& slot, const Job& job) const;

  std::uint32_t top_k_, threads_;
  std::array<Slot, kSlots> slots_;
  BatchView shape_{};  ///< of the batch under way
  Side train_{}, inf_{};
  bool has_tokens_ = false;
  FastPlan plan_{};
};

}  // namespace driftgate::gpu::cuda
