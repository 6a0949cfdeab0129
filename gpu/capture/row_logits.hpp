#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

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

/// The logits of one row of a capture of full logits.
[[nodiscard]] inline LogitRow logits_of(const Capture& capture, std::uint64_t row) {
  const auto after = std::ranges::upper_bound(capture.segments(), row, {}, &CaptureSegment::first_row);
  const CaptureSegment& of = *std::prev(after);
  return {of.logits + static_cast<std::size_t>((row - of.first_row) * of.row_bytes), of.dtype};
}

}  // namespace driftgate::gpu
