#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "gpu/cuda/device_memory.hpp"
#include "gpu/cuda/kernels.hpp"

namespace driftgate::gpu::cuda {

/// Measures batches of any size in bounded memory: rows go in chunks through two slots, each with its own
/// stream and buffers, so that copying the next chunk overlaps with measuring this one. Logits in device
/// memory are measured where they are, unless their rows are not aligned to 16 bytes.
class RowPipeline {
 public:
  /// `core`: only the figures of DRIFTGATE_METRICS_CORE.
  RowPipeline(std::uint32_t top_k, std::uint32_t threads, bool core)
      : top_k_(top_k), threads_(threads), core_(core) {}
  /// `batch` was checked. Throws CudaError.
  void measure(const driftgate_batch& batch, driftgate_row* results);

 private:
  static constexpr std::size_t kSlots = 2;
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{32} << 20;  ///< of both kernels' logits
  static constexpr std::uint64_t kMaxChunkRows = 65'536;                 ///< bounds records and results
  static constexpr std::uint32_t kMaxCopyThreads = 8;

  struct Slot {
    Stream stream;
    Buffer host{Where::pinned}, device{Where::device};  ///< logits and tokens
    Buffer scratch{Where::device};
    Buffer device_results{Where::device}, host_results{Where::pinned};
    driftgate_row* out = nullptr;  ///< where the chunk under way belongs; null when there is none
    std::uint64_t rows = 0;
  };
  struct Side {
    const unsigned char* data;
    std::uint64_t stride, row_bytes, pitch;
    Place place;
    bool aligned;
  };

  static Side side_of(const driftgate_logits& logits, std::uint32_t vocabulary);
  [[nodiscard]] std::uint64_t rows_of_chunk(const driftgate_batch& batch, const Side& train,
                                            const Side& inf) const;
  void start_chunk(Slot& slot, const driftgate_batch& batch, const Side& train, const Side& inf,
                   std::uint64_t first);
  const unsigned char* bring(Slot& slot, const Side& side, std::uint64_t first, std::uint64_t offset);
  void stage(const Side& side, std::uint64_t first, std::uint64_t rows, unsigned char* to) const;
  BatchScratch scratch_for(Slot& slot) const;
  static void finish_chunk(Slot& slot);
  void drain();

  std::uint32_t top_k_, threads_;
  bool core_;
  std::array<Slot, kSlots> slots_;
  BatchView shape_{};  ///< of the batch under way
  FastPlan plan_{};
};

}  // namespace driftgate::gpu::cuda
