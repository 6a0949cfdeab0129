// e^x, e^x − 1 and φ(x) = e^x − 1 − x of one argument without cancellation, and the Jensen–Shannon term of
// any log-ratio, in float32. Included by narrow_kernel.inl after float_vector.inl. See gpu/cpu/README.md,
// "Tiles in float32".

namespace driftgate::gpu::cpu {

namespace {

/// Like `horner`, in two chains of half the length, which the processor can overlap.
template <std::size_t N>
DRIFTGATE_INLINE F two_chains(F x, const float (&coefficients)[N]) {
  constexpr std::size_t kEven = (N - 1) / 2 * 2, kOdd = N / 2 * 2 - 1;
  const F x2 = x * x;
  F even = fill(coefficients[kEven]), odd = fill(coefficients[kOdd]);
  for (std::size_t i = kEven; i >= 2; i -= 2) even = fused(even, x2, fill(coefficients[i - 2]));
  for (std::size_t i = kOdd; i >= 2; i -= 2) odd = fused(odd, x2, fill(coefficients[i - 2]));
  return fused(odd, x, even);
}

/// With x = n·ln 2 + r, |r| ≤ ½ ln 2, s = 2^n and t = φ(r):
///   e^x = s + s·(r + t),  e^x − 1 = (s − 1) + s·(r + t),  φ(x) = s·t + (s − 1)·r + (s − 1 − n·ln 2).
/// For n = 0 the last is t alone, whose polynomial has a relative error of 3e-9; else |x| > 0.34, where the
/// three terms cancel at most four times, so that all three hold to 3e-7 at worst (about 5e-8 at the root of
/// the mean square). ln 2 is taken as one float: with fused operations that is the same as an x that differs
/// by 3e-9 of itself, far less than a float32 x is uncertain by.
struct Ratio {
  F power, growth, phi;  ///< e^x, e^x − 1, e^x − 1 − x
};
/// `low`: the rounding error of x.
DRIFTGATE_INLINE Ratio ratio_of(F x, F low) {
  constexpr float kPhi[] = {0.5F,           0.166666665F,   0.0416664639F,
                            0.00833336093F, 0.00139337767F, 0.000198578656F};
  const F log2_e = fill(1.44269504F), minus_ln2 = fill(-0.693147182F), magic = fill(0x1.8p23F);
  const F shifted = fused(x, log2_e, magic);
  const F n = shifted - magic;
  const F r = fused(n, minus_ln2, x) + low;
  const F t = r * r * two_chains(r, kPhi);
  const F s = reinterpret_cast<F>((reinterpret_cast<I>(shifted) << 23) + 0x3f800000);
  const F less = s - 1.0F, grown = r + t;
  return {fused(s, grown, s), fused(s, grown, less), fused(s, t, fused(less, r, fused(n, minus_ln2, less)))};
}

/// 1/x to about 1e-7, for x between e^−80 and e^80.
DRIFTGATE_INLINE F reciprocal(F x) {
#ifdef __AVX512F__
  const F rough = _mm512_rcp14_ps(x);
#else
  const F rough = _mm256_rcp_ps(x);
#endif
  return rough * (2.0F - x * rough);
}

DRIFTGATE_INLINE F where(Lanes set, F yes, F no) {
#ifdef __AVX512F__
  return _mm512_mask_mov_ps(no, set, yes);
#else
  return _mm256_blendv_ps(no, yes, set);
#endif
}

/// J(d) = ln 2 less the entropy of (p, q)/(p + q), where d = log p/q: js is Σ½(p + q)·J(d), each term of
/// which is positive. Polynomials of J(d)/d² in d², relative error 2e-8 for |d| ≤ kJsNear and 1e-7 for |d| ≤
/// kJsFar (there about the middle of the range, since its singularity at d² = −π² makes powers of d² itself
/// cancel).
constexpr float kJsNear = 2.5F, kJsFar = 4.0F;
DRIFTGATE_INLINE F js_near(F d2) {
  constexpr float kTerms[] = {0.125F,           -0.0156249381F,  0.0017358445F,
                              -0.000184010619F, 1.88287265e-05F, -1.78428871e-06F,
                              1.40241e-07F,     -7.5873005e-09F, 1.99823089e-10F};
  return d2 * two_chains(d2, kTerms);
}
DRIFTGATE_INLINE F js_middle(F d2) {
  constexpr float kMiddle = kJsFar * kJsFar / 2;
  constexpr float kTerms[] = {0.0597344453F,   -0.0333880695F,   0.016838144F,    -0.00807375196F,
                              0.00376783222F,  -0.00173719217F,  0.000816121958F, -0.000368993103F,
                              0.000124377625F, -5.83089367e-05F, 6.44584155e-05F, -2.82919254e-05F};
  const F t = fused(d2, fill(1.0F / kMiddle), fill(-1.0F));
  return d2 * two_chains(t, kTerms);
}
/// (p + q)·J beyond kJsFar, with r = low/high ≤ e^−4: (1 + r)·log1p r = r·(1 + r/2 − r²/6 + …), of which the
/// next term is 1e-8 of the whole, so (p + q)·ln 2 − low·(1 + |d| + r/2 − r²/6).
DRIFTGATE_INLINE F js_far(F sum, F low, F r, F size) {
  const F rest = fused(r, fused(r, fill(-1.0F / 6), fill(0.5F)), size + 1.0F);
  return fused(sum, fill(0.693147182F), -(low * rest));
}

}  // namespace

}  // namespace driftgate::gpu::cpu
