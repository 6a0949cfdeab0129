// Vectors of floats in one register of the instruction set that the including translation unit is compiled
// for. Everything here has internal linkage; intrinsics are always inlined.

#include <immintrin.h>

namespace {

DRIFTGATE_INLINE float largest_of_8(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#ifdef __AVX512F__
constexpr std::size_t kWidth = 16;
using F = float __attribute__((vector_size(64)));
using I = std::int32_t __attribute__((vector_size(64)));

DRIFTGATE_INLINE F load_f32(const unsigned char* from) {
  return _mm512_loadu_ps(from);
}
DRIFTGATE_INLINE F load_bf16(const unsigned char* from) {
  const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}
DRIFTGATE_INLINE F load_f16(const unsigned char* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
DRIFTGATE_INLINE F larger(F a, F b) {
  return _mm512_max_ps(a, b);
}
DRIFTGATE_INLINE F smaller(F a, F b) {
  return _mm512_min_ps(a, b);
}
DRIFTGATE_INLINE I larger_signed(I a, I b) {
  return reinterpret_cast<I>(_mm512_max_epi32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
DRIFTGATE_INLINE I larger_unsigned(I a, I b) {
  return reinterpret_cast<I>(_mm512_max_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
DRIFTGATE_INLINE std::uint32_t mask_above(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
DRIFTGATE_INLINE std::uint32_t mask_equal(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
DRIFTGATE_INLINE F absolute(F a) {
  return _mm512_abs_ps(a);
}
/// a·b + c and a·b − c, rounded once.
DRIFTGATE_INLINE F fused(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
DRIFTGATE_INLINE F fused_less(F a, F b, F c) {
  return _mm512_fmsub_ps(a, b, c);
}
/// One bit for each lane.
using Lanes = __mmask16;
DRIFTGATE_INLINE Lanes lanes(std::uint32_t bits) {
  return static_cast<Lanes>(bits);
}
DRIFTGATE_INLINE std::uint32_t bits_of(Lanes set) {
  return set;
}
DRIFTGATE_INLINE Lanes above(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
DRIFTGATE_INLINE Lanes equal(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
DRIFTGATE_INLINE F only(Lanes set, F a) {
  return _mm512_maskz_mov_ps(set, a);
}
DRIFTGATE_INLINE F larger_in(Lanes set, F a, F b) {
  return _mm512_mask_max_ps(a, set, a, b);
}
DRIFTGATE_INLINE F smaller_in(Lanes set, F a, F b) {
  return _mm512_mask_min_ps(a, set, a, b);
}
/// a + b where e is not above `least`, else a.
DRIFTGATE_INLINE F add_outside(F e, F least, F a, F b) {
  return _mm512_mask_add_ps(a, _mm512_cmp_ps_mask(e, least, _CMP_LE_OQ), a, b);
}

/// Steps of the exponent for each power of two: entries of the table of 2^(j/kSteps).
constexpr int kStepBits = 5;
constexpr int kSteps = 1 << kStepBits;
/// 2^(r/kSteps) for |r| ≤ 1/2, relative error 5e-8: t + t·r·(c1 + c2·r), t = 2^(j/kSteps).
struct Exponential {
  F low, high, c1, c2;
  DRIFTGATE_INLINE Exponential(const float* table)
      : low(_mm512_loadu_ps(table)),
        high(_mm512_loadu_ps(table + 16)),
        c1(_mm512_set1_ps(0.02166116698955562F)),
        c2(_mm512_set1_ps(0.00023459619820224677F)) {}
  DRIFTGATE_INLINE F operator()(F r, F shifted) const {
    const __m512i index = _mm512_castps_si512(shifted);
    const __m512i entry = _mm512_castps_si512(_mm512_permutex2var_ps(low, index, high));
    const F t = _mm512_castsi512_ps(_mm512_add_epi32(entry, _mm512_slli_epi32(index, 23 - kStepBits)));
    return fused(t * r, fused(r, c2, c1), t);
  }
};
DRIFTGATE_INLINE float largest(F v) {
  return largest_of_8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
DRIFTGATE_INLINE float smallest(F v) {
  return -largest(-v);
}
/// Eight partial sums in float64.
DRIFTGATE_INLINE f64x8 widen_sums(F a) {
  const f64x8 low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
  const f64x8 high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
  return low + high;
}
#else
constexpr std::size_t kWidth = 8;
using F = float __attribute__((vector_size(32)));
using I = std::int32_t __attribute__((vector_size(32)));

DRIFTGATE_INLINE F load_f32(const unsigned char* from) {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
}
DRIFTGATE_INLINE F load_bf16(const unsigned char* from) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
DRIFTGATE_INLINE F load_f16(const unsigned char* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
DRIFTGATE_INLINE F larger(F a, F b) {
  return _mm256_max_ps(a, b);
}
DRIFTGATE_INLINE F smaller(F a, F b) {
  return _mm256_min_ps(a, b);
}
DRIFTGATE_INLINE I larger_signed(I a, I b) {
  return reinterpret_cast<I>(_mm256_max_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
DRIFTGATE_INLINE I larger_unsigned(I a, I b) {
  return reinterpret_cast<I>(_mm256_max_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
DRIFTGATE_INLINE std::uint32_t mask_above(F a, F b) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
}
DRIFTGATE_INLINE std::uint32_t mask_equal(F a, F b) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
}
DRIFTGATE_INLINE F absolute(F a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a);
}
DRIFTGATE_INLINE F fused(F a, F b, F c) {
  return _mm256_fmadd_ps(a, b, c);
}
DRIFTGATE_INLINE F fused_less(F a, F b, F c) {
  return _mm256_fmsub_ps(a, b, c);
}
/// All ones in the lanes of the set.
using Lanes = __m256;
DRIFTGATE_INLINE Lanes lanes(std::uint32_t bits) {
  const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), each);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, each));
}
DRIFTGATE_INLINE std::uint32_t bits_of(Lanes set) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(set));
}
DRIFTGATE_INLINE Lanes above(F a, F b) {
  return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}
DRIFTGATE_INLINE Lanes equal(F a, F b) {
  return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
DRIFTGATE_INLINE F only(Lanes set, F a) {
  return _mm256_and_ps(set, a);
}
DRIFTGATE_INLINE F larger_in(Lanes set, F a, F b) {
  return _mm256_blendv_ps(a, _mm256_max_ps(a, b), set);
}
DRIFTGATE_INLINE F smaller_in(Lanes set, F a, F b) {
  return _mm256_blendv_ps(a, _mm256_min_ps(a, b), set);
}
DRIFTGATE_INLINE F add_outside(F e, F least, F a, F b) {
  return _mm256_add_ps(a, _mm256_andnot_ps(above(e, least), b));
}

constexpr int kStepBits = 3;
constexpr int kSteps = 1 << kStepBits;
/// As above, with one more power: relative error 3e-8.
struct Exponential {
  F table, c1, c2, c3;
  DRIFTGATE_INLINE Exponential(const float* entries)
      : table(_mm256_loadu_ps(entries)),
        c1(_mm256_set1_ps(0.08664339756999316F)),
        c2(_mm256_set1_ps(0.0037540254944196686F)),
        c3(_mm256_set1_ps(0.00010840646223597964F)) {}
  DRIFTGATE_INLINE F operator()(F r, F shifted) const {
    const __m256i index = _mm256_castps_si256(shifted);
    const __m256i entry = _mm256_castps_si256(_mm256_permutevar8x32_ps(table, index));
    const F t = _mm256_castsi256_ps(_mm256_add_epi32(entry, _mm256_slli_epi32(index, 23 - kStepBits)));
    return fused(t * r, fused(r, fused(r, c3, c2), c1), t);
  }
};
DRIFTGATE_INLINE float largest(F v) {
  return largest_of_8(v);
}
DRIFTGATE_INLINE float smallest(F v) {
  return -largest(-v);
}
DRIFTGATE_INLINE f64x8 widen_sums(F a) {
  return widen_floats(a);
}
#endif

DRIFTGATE_INLINE F fill(float value) {
  return F{} + value;
}
DRIFTGATE_INLINE F load(const float* from) {
  F out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
DRIFTGATE_INLINE void store(float* to, F value) {
  std::memcpy(to, &value, sizeof(value));
}
template <std::size_t N>
DRIFTGATE_INLINE F horner(F x, const float (&coefficients)[N]) {
  F out = fill(coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) out = out * x + coefficients[i];
  return out;
}

/// e^x·2^−k for x with |x·log2 e − k| < 126, where `magic` is 1.5·2^23 − k: the exponent is moved by whole
/// powers of two, so that no maximum is subtracted and x loses nothing. Relative error 1e-7.
DRIFTGATE_INLINE F exp_scaled(F x, F magic) {
  constexpr float kLog2e = 1.44269504F;
  constexpr float kLn2High = 0x1.62e43p-1F, kLn2Low = -0x1.05c61p-29F;
  constexpr float kPolynomial[] = {1.0F,          1.0F,           0.5F,          0.166664124F,
                                   0.0416663513F, 0.00837535039F, 0.00139413879F};
  const F shifted = x * kLog2e + magic;
  const F n = shifted - magic;
  const F r = (x - n * kLn2High) - n * kLn2Low;
  const F p = horner(r, kPolynomial);
  return reinterpret_cast<F>(reinterpret_cast<I>(p) + (reinterpret_cast<I>(shifted) << 23));
}

}  // namespace
