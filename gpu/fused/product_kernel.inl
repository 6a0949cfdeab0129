// The product kernel of one instruction set. The including file defines DRIFTGATE_PRODUCT (the table's
// identifier), DRIFTGATE_PRODUCT_NAME, DRIFTGATE_TILES (its row kernel), DRIFTGATE_LANES (floats of a vector)
// and DRIFTGATE_ROWS (of a register block). As in gpu/cpu/tile_kernel.inl only built-in operations are used.

#include "gpu/backend/backend.h"
#include "gpu/cpu/vector_math.inl"
#include "gpu/fused/product.hpp"

namespace driftgate::gpu::fused {

namespace {

constexpr std::size_t kFloats = DRIFTGATE_LANES;
constexpr std::size_t kRows = DRIFTGATE_ROWS;
constexpr std::size_t kVectors = 2;
constexpr std::size_t kColumns = kVectors * kFloats;

using V = float __attribute__((vector_size(4 * DRIFTGATE_LANES)));

/// Adds floats to doubles.
DRIFTGATE_INLINE void add_wide(V part, double* to) {
#if DRIFTGATE_LANES >= 8
  f32x8 eight[kFloats / 8];
  std::memcpy(eight, &part, sizeof(part));
  for (std::size_t i = 0; i < kFloats / 8; ++i) {
    store(to + 8 * i, load(to + 8 * i) + widen_floats(eight[i]));
  }
#else
  for (std::size_t i = 0; i < kFloats; ++i) to[i] += static_cast<double>(part[i]);
#endif
}

// Every loop over `sums` is unrolled, because g++ 12 otherwise keeps them in memory.
void multiply(const float* a, const float* b, std::size_t depth, double* c, std::size_t stride) {
  V sums[kRows][kVectors] = {};
  for (std::size_t k = 0; k < depth; ++k) {
    V right[kVectors];
#pragma GCC unroll 2
    for (std::size_t j = 0; j < kVectors; ++j) {
      V part;
      std::memcpy(&part, b + k * kColumns + j * kFloats, sizeof(part));
      right[j] = part;
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i) {
      const V left = a[k * kRows + i] - V{};  // a broadcast: x − 0 is x
#pragma GCC unroll 2
      for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t j = 0; j < kVectors; ++j) add_wide(sums[i][j], c + i * stride + j * kFloats);
  }
}

template <std::uint32_t Dtype>
DRIFTGATE_INLINE f32x8 load_floats(const unsigned char* from) {
  if constexpr (Dtype == DRIFTGATE_F32) {
    f32x8 out;
    std::memcpy(&out, from, sizeof(out));
    return out;
  }
  u16x8 raw;
  std::memcpy(&raw, from, sizeof(raw));
  const u32x8 wide = __builtin_convertvector(raw, u32x8);
  if constexpr (Dtype == DRIFTGATE_BF16) return reinterpret_cast<f32x8>(wide << 16);
  const f32x8 scaled = reinterpret_cast<f32x8>((wide & 0x7fffU) << 13) * 0x1p112F;  // as widen() of halves
  const u32x8 special = reinterpret_cast<u32x8>((wide & 0x7c00U) == 0x7c00U) & 0x7f80'0000U;
  return reinterpret_cast<f32x8>(reinterpret_cast<u32x8>(scaled) | special | ((wide & 0x8000U) << 16));
}

/// Loads fewer than eight; the rest is 0.
template <std::uint32_t Dtype>
DRIFTGATE_INLINE f32x8 load_last(const unsigned char* from, std::size_t count) {
  unsigned char last[32] = {};
  std::memcpy(last, from, count * (Dtype == DRIFTGATE_F32 ? 4 : 2));
  return load_floats<Dtype>(last);
}

template <std::uint32_t Dtype>
void widen_type(const unsigned char* from, std::size_t count, float* to) {
  constexpr std::size_t kBytes = Dtype == DRIFTGATE_F32 ? 4 : 2;
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const f32x8 part = load_floats<Dtype>(from + i * kBytes);
    std::memcpy(to + i, &part, sizeof(part));
  }
  if (whole == count) return;
  const f32x8 part = load_last<Dtype>(from + whole * kBytes, count - whole);
  std::memcpy(to + whole, &part, (count - whole) * sizeof(float));
}

void widen_all(const unsigned char* from, std::uint32_t dtype, std::size_t count, float* to) {
  if (dtype == DRIFTGATE_F32) return widen_type<DRIFTGATE_F32>(from, count, to);
  if (dtype == DRIFTGATE_BF16) return widen_type<DRIFTGATE_BF16>(from, count, to);
  widen_type<DRIFTGATE_F16>(from, count, to);
}

void widen_less(const unsigned char* from, std::uint32_t dtype, std::size_t count, const float* centre,
                float* to) {
  widen_all(from, dtype, count, to);
  std::size_t k = 0;
  for (; k + 8 <= count; k += 8) {
    f32x8 part, less;
    std::memcpy(&part, to + k, sizeof(part));
    std::memcpy(&less, centre + k, sizeof(less));
    part -= less;
    std::memcpy(to + k, &part, sizeof(part));
  }
  for (; k < count; ++k) to[k] -= centre[k];
}

DRIFTGATE_INLINE f64x8 load_any(const unsigned char* from, std::uint32_t dtype, std::size_t column) {
  f32x8 out;
  if (dtype == DRIFTGATE_F32) {
    out = load_floats<DRIFTGATE_F32>(from + 4 * column);
  } else if (dtype == DRIFTGATE_BF16) {
    out = load_floats<DRIFTGATE_BF16>(from + 2 * column);
  } else {
    out = load_floats<DRIFTGATE_F16>(from + 2 * column);
  }
  return widen_floats(out);
}

void dots(const HiddenRow& row, const unsigned char* w, std::uint32_t dtype, std::size_t count, double* train,
          double* drift) {
  f64x8 sums_train{}, sums_drift{};
  const std::size_t whole = count / 8 * 8;
  for (std::size_t k = 0; k < whole; k += 8) {
    const f64x8 weight = load_any(w, dtype, k), h = load_any(row.train, row.train_dtype, k);
    sums_train += h * weight;
    sums_drift += (h - load_any(row.inf, row.inf_dtype, k)) * weight;
  }
  if (whole < count) {
    float last[3][8] = {};
    const auto bytes = [](std::uint32_t type) { return type == DRIFTGATE_F32 ? 4U : 2U; };
    widen_all(w + whole * bytes(dtype), dtype, count - whole, last[0]);
    widen_all(row.train + whole * bytes(row.train_dtype), row.train_dtype, count - whole, last[1]);
    widen_all(row.inf + whole * bytes(row.inf_dtype), row.inf_dtype, count - whole, last[2]);
    for (std::size_t k = 0; k < 8; ++k) {
      const auto h = static_cast<double>(last[1][k]), weight = static_cast<double>(last[0][k]);
      sums_train[k] += h * weight;
      sums_drift[k] += (h - static_cast<double>(last[2][k])) * weight;
    }
  }
  *train = total(sums_train);
  *drift = total(sums_drift);
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
  const f64x8 t = select(twice <= 1.0, close, size);
  return {select(x < 0.0, -t, t), 2.0 * e / below};
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
    drift = select(absolute(gap) <= 1.0, small, a.value - b.value) * cap;
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
                   std::size_t count, const LogitShape& shape, TileTop& top) {
  f64x8 suspicion{};  // accumulates 0·x, which is NaN for every x that is not finite
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
  if (caps || shape.temperature != 1.0) {
    for (std::size_t i = 0; i < count; i += 8) {
      f64x8 x = load(z + i), d = load(drift + i);
      if (caps) cap_logits(x, d, shape);
      store(z + i, x / shape.temperature);
      store(drift + i, d / shape.temperature);
    }
  }
  for (std::size_t i = count; i % 8 != 0; ++i) z[i] = z[0], drift[i] = drift[0];
  f64x8 top_z = load(z), top_y = top_z - load(drift);
  for (std::size_t i = 8; i < count; i += 8) {
    const f64x8 x = load(z + i);
    top_z = larger(top_z, x);
    top_y = larger(top_y, x - load(drift + i));
  }
  top = {largest(top_z), largest(top_y)};
  return 0;
}

std::size_t above(const double* z, const double* drift, std::size_t count, const TileTop& floor,
                  std::uint32_t* columns) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < count; i += 8) {
    const f64x8 x = load(z + i);
    const auto chosen = (x > floor.z) | (x - load(drift + i) > floor.y);
    if (total(select(chosen, splat(1.0), f64x8{})) == 0.0) continue;
    for (std::size_t lane = 0; lane < 8 && i + lane < count; ++lane) {
      if (chosen[lane] != 0) columns[out++] = static_cast<std::uint32_t>(i + lane);
    }
  }
  return out;
}

}  // namespace

extern const ProductKernel DRIFTGATE_PRODUCT;
const ProductKernel DRIFTGATE_PRODUCT = {
    DRIFTGATE_PRODUCT_NAME, kRows, kColumns, multiply, widen_all, widen_less, dots, form, above,
    &cpu::DRIFTGATE_TILES};

}  // namespace driftgate::gpu::fused
