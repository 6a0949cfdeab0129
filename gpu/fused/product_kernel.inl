// The product kernel of one instruction set. The including file defines DRIFTGATE_PRODUCT (the table's
// identifier), DRIFTGATE_PRODUCT_NAME, DRIFTGATE_TILES (its row kernel), DRIFTGATE_LANES (floats of a vector)
// and DRIFTGATE_ROWS (of a register block). As in gpu/cpu/tile_kernel.inl only built-in operations are used.

#include "gpu/backend.h"
#include "gpu/cpu/vector_math.inl"
#include "gpu/fused/product.hpp"

namespace driftgate::gpu::fused {

namespace {

constexpr std::size_t kFloats = DRIFTGATE_LANES;
constexpr std::size_t kRows = DRIFTGATE_ROWS;
constexpr std::size_t kVectors = 2;
constexpr std::size_t kColumns = kVectors * kFloats;

using V = float __attribute__((vector_size(4 * DRIFTGATE_LANES)));

void multiply(const float* a, const float* b, std::size_t depth, double* c, std::size_t stride) {
  V sums[kRows][kVectors] = {};
  for (std::size_t k = 0; k < depth; ++k) {
    V right[kVectors];
    std::memcpy(right, b + k * kColumns, sizeof(right));
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i) {
      const V left = V{} + a[k * kRows + i];
#pragma GCC unroll 2
      for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] += left * right[j];
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    alignas(64) float row[kColumns];
    std::memcpy(row, sums[i], sizeof(row));
    for (std::size_t j = 0; j < kColumns; j += 8) {
      f32x8 part;
      std::memcpy(&part, row + j, sizeof(part));
      double* to = c + i * stride + j;
      store(to, load(to) + __builtin_convertvector(part, f64x8));
    }
  }
}

DRIFTGATE_INLINE f32x8 load_floats(const unsigned char* from, std::uint32_t dtype) {
  f32x8 out;
  if (dtype == DRIFTGATE_F32) {
    std::memcpy(&out, from, sizeof(out));
    return out;
  }
  u16x8 raw;
  std::memcpy(&raw, from, sizeof(raw));
  const u32x8 wide = __builtin_convertvector(raw, u32x8);
  if (dtype == DRIFTGATE_BF16) return reinterpret_cast<f32x8>(wide << 16);
  const f32x8 scaled = reinterpret_cast<f32x8>((wide & 0x7fffU) << 13) * 0x1p112F;  // as widen() of halves
  const u32x8 special = reinterpret_cast<u32x8>((wide & 0x7c00U) == 0x7c00U) & 0x7f80'0000U;
  return reinterpret_cast<f32x8>(reinterpret_cast<u32x8>(scaled) | special | ((wide & 0x8000U) << 16));
}

void widen_all(const unsigned char* from, std::uint32_t dtype, std::size_t count, float* to) {
  const std::size_t bytes = dtype == DRIFTGATE_F32 ? 4 : 2;
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const f32x8 part = load_floats(from + i * bytes, dtype);
    std::memcpy(to + i, &part, sizeof(part));
  }
  if (whole == count) return;
  unsigned char last[32] = {};
  std::memcpy(last, from + whole * bytes, (count - whole) * bytes);
  const f32x8 part = load_floats(last, dtype);
  std::memcpy(to + whole, &part, (count - whole) * sizeof(float));
}

double dot(const double* h, const float* w, std::size_t count) {
  f64x8 sums[4] = {};
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
      f32x8 part;
      std::memcpy(&part, w + i + 8 * j, sizeof(part));
      sums[j] += load(h + i + 8 * j) * __builtin_convertvector(part, f64x8);
    }
  }
  double rest = 0;
  for (; i < count; ++i) rest += h[i] * static_cast<double>(w[i]);
  return total((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

struct Capped {
  f64x8 value, sech;  ///< tanh x and 1/cosh x
};

DRIFTGATE_INLINE Capped capped(f64x8 x) {
  const f64x8 e = exp8(-absolute(x));
  const f64x8 below = 1.0 + e * e;
  const f64x8 size = (1.0 - e * e) / below;
  // Near 0 the difference 1 − e² would cancel: e² − 1 = −2|x| + φ(−2|x|).
  const f64x8 twice = absolute(x) * 2.0;
  const Phi phi = phi8<false>(smaller(twice, splat(1.0)));
  const f64x8 close = (twice - (phi.even - phi.odd)) / below;
  const f64x8 t = twice <= 1.0 ? close : size;
  return {x < 0.0 ? -t : t, 2.0 * e / below};
}

/// cap·tanh(x/cap) of K_train and the drift through both soft-caps. Under one cap it is
/// tanh a − tanh b = sinh(a − b)/(cosh a·cosh b), which keeps the relative accuracy of a small a − b.
DRIFTGATE_INLINE void cap_logits(f64x8& z, f64x8& drift, const LogitShape& shape) {
  const f64x8 x = z, y = z - drift;
  if (shape.cap_train == shape.cap_inf) {
    const double cap = shape.cap_train;
    const Capped a = capped(x / cap), b = capped(y / cap);
    const f64x8 gap = drift / cap;
    const Phi phi = phi8<false>(smaller(larger(gap, splat(-1.0)), splat(1.0)));
    const f64x8 small = (gap + phi.odd) * a.sech * b.sech;
    z = a.value * cap;
    drift = (absolute(gap) <= 1.0 ? small : a.value - b.value) * cap;
    return;
  }
  z = shape.cap_train > 0 ? capped(x / shape.cap_train).value * shape.cap_train : x;
  drift = z - (shape.cap_inf > 0 ? capped(y / shape.cap_inf).value * shape.cap_inf : y);
}

std::uint64_t count_nonfinite(const double* z, const double* drift, std::size_t count) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    out += static_cast<std::uint64_t>(!__builtin_isfinite(z[i])) +
           static_cast<std::uint64_t>(!__builtin_isfinite(z[i] - drift[i]));
  }
  return out;
}

std::uint64_t form(double* z, double* drift, const double* bias_train, const double* bias_drift,
                   std::size_t count, const LogitShape& shape) {
  f64x8 suspicion{};  // 0·x is NaN for every x that is not finite
  for (std::size_t i = 0; i < count; i += 8) {
    const f64x8 x = load(z + i) * shape.scale_train + load(bias_train + i);
    const f64x8 d = load(drift + i) + load(bias_drift + i);
    suspicion += (x + d) * 0.0;
    store(z + i, x);
    store(drift + i, d);
  }
  if (total(suspicion) != 0.0) {
    if (const std::uint64_t bad = count_nonfinite(z, drift, count); bad > 0) return bad;
  }
  const bool caps = shape.cap_train > 0 || shape.cap_inf > 0;
  if (!caps && shape.temperature == 1.0) return 0;
  for (std::size_t i = 0; i < count; i += 8) {
    f64x8 x = load(z + i), d = load(drift + i);
    if (caps) cap_logits(x, d, shape);
    store(z + i, x / shape.temperature);
    store(drift + i, d / shape.temperature);
  }
  return 0;
}

}  // namespace

extern const ProductKernel DRIFTGATE_PRODUCT;
const ProductKernel DRIFTGATE_PRODUCT = {
    DRIFTGATE_PRODUCT_NAME, kRows, kColumns, multiply, widen_all, dot, form, &cpu::DRIFTGATE_TILES};

}  // namespace driftgate::gpu::fused
