#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "gpu/capture/capture.hpp"
#include "gpu/cpu/half.hpp"

namespace driftgate::gpu {

/// The logits of one row as they are stored.
struct LogitRow {
  const std::byte* data;
  DType dtype;

  [[nodiscard]] double at(std::size_t column) const {
    if (dtype == DType::f32) {
      float value = 0;
      std::memcpy(&value, data + column * sizeof(value), sizeof(value));
      return value;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, data + column * sizeof(bits), sizeof(bits));
    return dtype == DType::f16 ? cpu::from_f16(bits) : cpu::from_bf16(bits);
  }
};

/// Finds the logits of rows of a capture of full logits, which are asked for in ascending order.
class RowLogits {
 public:
  explicit RowLogits(const Capture& capture) : segments_(capture.segments()) {}
  [[nodiscard]] LogitRow at(std::uint64_t row) {
    while (row >= segments_[at_].first_row + segments_[at_].rows) ++at_;
    const CaptureSegment& of = segments_[at_];
    return {of.logits + static_cast<std::size_t>((row - of.first_row) * of.row_bytes), of.dtype};
  }

 private:
  std::span<const CaptureSegment> segments_;
  std::size_t at_ = 0;
};

}  // namespace driftgate::gpu
