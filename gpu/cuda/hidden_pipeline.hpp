#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gpu/cuda/device_memory.hpp"
#include "gpu/cuda/hidden_heads.hpp"
#include "gpu/cuda/hidden_kernels.hpp"

namespace driftgate::gpu::cuda {

/// Measures rows of hidden states under one pair of heads. Device memory holds the heads as stored, for the
/// columns that are computed in float64, and as digits, 3 bytes for each element. Rows are processed in
/// chunks through two slots, each with its own stream, buffers and scratch, so that copying one chunk
/// overlaps with measuring the other.
class HiddenPipeline {
 public:
  /// Copies the heads, which must have been checked, to the device. Throws CudaError, also when they do not
  /// fit.
  HiddenPipeline(const driftgate_hidden_heads& heads, std::uint32_t top_k, bool core);
  /// Measures a batch, which must have been checked. Throws CudaError.
  void run(const driftgate_hidden_batch& batch, driftgate_row* results);

  [[nodiscard]] std::uint32_t vocabulary() const { return vocabulary_; }
  /// Bytes of device memory for the heads, and for the slots with the largest chunk.
  [[nodiscard]] std::uint64_t head_bytes() const { return head_bytes_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const;

 private:
  static constexpr std::size_t kSlots = 2;
  static constexpr std::uint32_t kMostRows = 256;                      ///< of a chunk
  static constexpr std::uint64_t kRowBytes = std::uint64_t{64} << 20;  ///< of a chunk's rows and their digits

  struct Slot {
    Stream stream;
    Buffer host{Where::pinned}, device{Where::device};  ///< hidden states, columns of tokens
    Buffer scratch{Where::device};
    Buffer device_results{Where::device}, host_results{Where::pinned};
    std::uint64_t first = 0;
    std::uint32_t rows = 0;  ///< of the chunk under way; 0 when there is none
  };
  /// Allocates parts of a buffer, or only counts their bytes.
  class Cutter {
   public:
    explicit Cutter(unsigned char* base) : base_(base) {}
    template <typename T>
    T* take(std::uint64_t count) {
      T* const out = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
      used_ += (count * sizeof(T) + 255) / 256 * 256;
      return out;
    }
    [[nodiscard]] std::uint64_t used() const { return used_; }

   private:
    unsigned char* base_;
    std::uint64_t used_ = 0;
  };

  void place_heads(const driftgate_hidden_heads& heads, Cutter& cutter);
  void bring_heads(const driftgate_hidden_heads& heads, const NarrowBias& bias);
  void pack_heads();
  [[nodiscard]] DigitLines take_lines(Cutter& cutter, std::uint32_t lines, bool columns) const;
  HiddenScratch scratch_of(std::uint32_t rows, Cutter& cutter) const;
  void start_chunk(Slot& slot, const driftgate_hidden_batch& batch);
  const unsigned char* bring_rows(Slot& slot, const driftgate_logits& from, std::uint64_t offset) const;
  void finish_chunk(Slot& slot, driftgate_row* results) const;

  std::uint32_t top_k_, vocabulary_, most_rows_ = kMostRows;
  bool core_;
  bool usable_ = true;  ///< every weight is finite
  std::vector<std::uint32_t> tokens_;
  HiddenLayout layout_;
  HeadsView view_{};
  Buffer heads_{Where::device};
  std::uint64_t head_bytes_ = 0;
  std::array<Slot, kSlots> slots_;
};

}  // namespace driftgate::gpu::cuda
