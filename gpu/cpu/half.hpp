#pragma once

#include <bit>
#include <cstdint>

namespace driftgate::gpu::cpu {

[[nodiscard]] inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// IEEE 754 binary16, exactly: a scale by 2^112 moves the exponent, subnormals included.
[[nodiscard]] inline float from_f16(std::uint16_t bits) {
  const auto wide = static_cast<std::uint32_t>(bits);
  const std::uint32_t sign = (wide & 0x8000U) << 16;
  std::uint32_t rest = std::bit_cast<std::uint32_t>(std::bit_cast<float>((wide & 0x7fffU) << 13) * 0x1p112F);
  if ((wide & 0x7c00U) == 0x7c00U) rest |= 0x7f80'0000U;
  return std::bit_cast<float>(sign | rest);
}

}  // namespace driftgate::gpu::cpu
