#pragma once

#include "gpu/cuda/arithmetic.hpp"

/// Sums over the lanes of a warp in a fixed order. `Ctx` is the view that a thread has of its block and
/// cluster: that of the device (kernels.cu) or an emulated one (the tests).
namespace driftgate::gpu::cuda {

/// Adds N values (a power of two up to 16) over a warp; lane v·(32/N) gets the sum of value `v`. At each step
/// a lane passes half of its values to its partner, so that N values cost about 2·N exchanges instead of 5·N.
template <int N, class Ctx>
DRIFTGATE_HD float warp_sums(Ctx& ctx, float (&values)[N]) {
  static_assert(N >= 2 && N <= 16 && (N & (N - 1)) == 0);
  unsigned mask = 16;
  DRIFTGATE_UNROLL
  for (int half = N / 2; half >= 1; half /= 2, mask /= 2) {
    const bool upper = (ctx.thread() & mask) != 0;
    DRIFTGATE_UNROLL
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? values[i + half] : values[i];
      const float sent = upper ? values[i] : values[i + half];
      values[i] = kept + ctx.shuffle_xor(sent, mask);
    }
  }
  float total = values[0];
  for (; mask >= 1; mask /= 2) total += ctx.shuffle_xor(total, mask);
  return total;
}

template <class Ctx>
DRIFTGATE_HD float warp_max_or_nan(Ctx& ctx, float value) {
  DRIFTGATE_UNROLL
  for (unsigned mask = 16; mask >= 1; mask /= 2) value = max_or_nan(value, ctx.shuffle_xor(value, mask));
  return value;
}
template <class Ctx>
DRIFTGATE_HD float warp_min(Ctx& ctx, float value) {
  DRIFTGATE_UNROLL
  for (unsigned mask = 16; mask >= 1; mask /= 2) value = smaller(value, ctx.shuffle_xor(value, mask));
  return value;
}
template <class Ctx>
DRIFTGATE_HD double warp_sum(Ctx& ctx, double value) {
  DRIFTGATE_UNROLL
  for (unsigned mask = 16; mask >= 1; mask /= 2) value += ctx.shuffle_xor(value, mask);
  return value;
}

}  // namespace driftgate::gpu::cuda
