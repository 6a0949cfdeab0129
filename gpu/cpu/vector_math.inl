// Arithmetic on eight doubles at a time. Everything here has internal linkage.

#include "gpu/cpu/double_vector.inl"

namespace {

using u32x8 = std::uint32_t __attribute__((vector_size(32)));
using u16x8 = std::uint16_t __attribute__((vector_size(16)));

DRIFTGATE_INLINE f64x8 splat(double value) {
  return f64x8{} + value;
}

DRIFTGATE_INLINE f64x8 larger(f64x8 a, f64x8 b) {
  return select(a > b, a, b);
}
DRIFTGATE_INLINE f64x8 smaller(f64x8 a, f64x8 b) {
  return select(a < b, a, b);
}

DRIFTGATE_INLINE f64x8 absolute(f64x8 x) {
  return masked_bits(x, 0x7fff'ffff'ffff'ffffLL);
}

/// Lanes are always added in this order, so that every instruction set rounds alike.
DRIFTGATE_INLINE double total(f64x8 v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
DRIFTGATE_INLINE double largest(f64x8 v) {
  double out = v[0];
  for (int i = 1; i < 8; ++i) out = v[i] > out ? v[i] : out;
  return out;
}
DRIFTGATE_INLINE double smallest(f64x8 v) {
  double out = v[0];
  for (int i = 1; i < 8; ++i) out = v[i] < out ? v[i] : out;
  return out;
}

template <std::size_t N>
DRIFTGATE_INLINE f64x8 horner(f64x8 x, const double (&coefficients)[N]) {
  f64x8 out = splat(coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) out = out * x + coefficients[i];
  return out;
}

/// e^x to about one unit in the last place; 0 below −708, +Inf above 709.
DRIFTGATE_INLINE f64x8 exp8(f64x8 x) {
  constexpr double kLog2e = 1.4426950408889634;
  constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits, so that n·kLn2High is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kMagic = 0x1.8p52;  // adding it rounds to an integer, which is then in the low bits
  constexpr double kLow = -708.0, kHigh = 709.0;
  constexpr double kTaylor[] = {1.0,
                                1.0,
                                1.0 / 2,
                                1.0 / 6,
                                1.0 / 24,
                                1.0 / 120,
                                1.0 / 720,
                                1.0 / 5040,
                                1.0 / 40320,
                                1.0 / 362880,
                                1.0 / 3628800,
                                1.0 / 39916800,
                                1.0 / 479001600,
                                1.0 / 6227020800.0};
  const f64x8 inside = smaller(larger(x, splat(kLow)), splat(kHigh));
  const f64x8 shifted = inside * kLog2e + kMagic;
  const f64x8 n = shifted - kMagic;
  const f64x8 r = (inside - n * kLn2High) - n * kLn2Low;
  const f64x8 p = horner(r, kTaylor);
  const f64x8 floored = select(x < kLow, f64x8{}, add_exponent(p, shifted));
  return select(x > kHigh, splat(__builtin_inf()), floored);
}

/// log(1 + r) for r in [0, 0.37]: 2·atanh(r / (2 + r)).
DRIFTGATE_INLINE f64x8 log1p8(f64x8 r) {
  constexpr double kAtanh[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7, 1.0 / 9,
                               1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17};
  const f64x8 s = r / (r + 2.0);
  return 2.0 * s * horner(s * s, kAtanh);
}

/// φ(x) = e^x − 1 − x = even + odd and φ(−x) = even − odd, without cancellation, for |x| ≤ 1
/// (`Small`: for |x| ≤ 1/16), to the last places.
struct Phi {
  f64x8 even, odd;
};
template <bool Small>
DRIFTGATE_INLINE Phi phi8(f64x8 x) {
  constexpr double kEven[] = {1.0 / 2,
                              1.0 / 24,
                              1.0 / 720,
                              1.0 / 40320,
                              1.0 / 3628800,
                              1.0 / 479001600,
                              1.0 / 87178291200.0,
                              1.0 / 20922789888000.0,
                              1.0 / 6402373705728000.0};
  constexpr double kOdd[] = {1.0 / 6,
                             1.0 / 120,
                             1.0 / 5040,
                             1.0 / 362880,
                             1.0 / 39916800,
                             1.0 / 6227020800.0,
                             1.0 / 1307674368000.0,
                             1.0 / 355687428096000.0,
                             1.0 / 121645100408832000.0};
  constexpr double kEvenSmall[] = {kEven[0], kEven[1], kEven[2], kEven[3]};
  constexpr double kOddSmall[] = {kOdd[0], kOdd[1], kOdd[2], kOdd[3]};
  const f64x8 x2 = x * x;
  if constexpr (Small) return {x2 * horner(x2, kEvenSmall), x2 * x * horner(x2, kOddSmall)};
  return {x2 * horner(x2, kEven), x2 * x * horner(x2, kOdd)};
}

DRIFTGATE_INLINE f64x8 widen(u16x8 half) {
  // IEEE half: scale by 2^112 moves the exponent and makes subnormals exact; Inf and NaN keep theirs.
  const u32x8 h = __builtin_convertvector(half, u32x8);
  const u32x8 shifted = (h & 0x7fffU) << 13;
  const f32x8 scaled = reinterpret_cast<f32x8>(shifted) * 0x1p112F;
  const u32x8 special = reinterpret_cast<u32x8>((h & 0x7c00U) == 0x7c00U) & 0x7f80'0000U;
  const u32x8 bits = reinterpret_cast<u32x8>(scaled) | special | ((h & 0x8000U) << 16);
  return widen_floats(reinterpret_cast<f32x8>(bits));
}

DRIFTGATE_INLINE f64x8 widen_bf16(u16x8 half) {
  const u32x8 bits = __builtin_convertvector(half, u32x8) << 16;
  return widen_floats(reinterpret_cast<f32x8>(bits));
}

}  // namespace
