#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/half.hpp"

namespace driftgate::gpu::test {

/// Rounds to bf16, ties to even. Infinities and NaN stay what they are.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (!std::isfinite(value))
    return static_cast<std::uint16_t>((bits >> 16) | (std::isnan(value) ? 0x40U : 0U));
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// The half nearest to `value`, by search: slow and obviously right.
inline std::uint16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  if (std::isnan(value)) return 0x7e00U;
  const float size = std::abs(value);
  if (std::isinf(size) || size >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  std::uint16_t low = 0, high = 0x7bffU;  // halves of one sign are ordered like their bits
  while (low < high) {
    const auto middle = static_cast<std::uint16_t>((low + high + 1) / 2);
    if (cpu::from_f16(middle) <= size)
      low = middle;
    else
      high = static_cast<std::uint16_t>(middle - 1);
  }
  const auto next = static_cast<std::uint16_t>(low + 1);
  const bool up = low < 0x7bffU && cpu::from_f16(next) - size < size - cpu::from_f16(low);
  return static_cast<std::uint16_t>(sign | (up ? next : low));
}

/// Values as a backend reads them, at an odd address, and as they read after rounding.
struct Stored {
  std::vector<unsigned char> bytes;
  std::vector<double> values;
  std::uint32_t dtype = DRIFTGATE_F32;
  [[nodiscard]] driftgate_logits view(std::uint32_t vocabulary) const {
    return {bytes.data() + 1, std::uint64_t{vocabulary} * (dtype == DRIFTGATE_F32 ? 4 : 2), dtype, 0};
  }
};

inline Stored store(const std::vector<double>& values, std::uint32_t dtype) {
  Stored out;
  out.dtype = dtype;
  out.bytes.push_back(0);
  const auto append = [&out](auto raw) {
    unsigned char part[sizeof(raw)];
    std::memcpy(part, &raw, sizeof(raw));
    out.bytes.insert(out.bytes.end(), part, part + sizeof(raw));
  };
  for (const double value : values) {
    const auto narrow = static_cast<float>(value);
    if (dtype == DRIFTGATE_F32) {
      append(narrow);
      out.values.push_back(narrow);
    } else if (dtype == DRIFTGATE_BF16) {
      append(to_bf16(narrow));
      out.values.push_back(cpu::from_bf16(to_bf16(narrow)));
    } else {
      append(to_f16(narrow));
      out.values.push_back(cpu::from_f16(to_f16(narrow)));
    }
  }
  return out;
}

}  // namespace driftgate::gpu::test
