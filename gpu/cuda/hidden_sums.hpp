#pragma once

#include "gpu/cuda/hidden_logit.hpp"
#include "gpu/cuda/pass_math.hpp"
#include "gpu/cuda/terms.hpp"

/// The terms that one column adds to the sums of its row, in float32. Columns with much mass are excluded:
/// they are computed in float64, so that the rounding errors of the others average out. See
/// docs/design/measurement.md, "Pass 2: sums of non-negative terms".
namespace driftgate::gpu::cuda {

constexpr float kHugeFloat = HUGE_VALF;

/// e^{−d} − 1 + d = φ(−d), and e^{−d} where it is not small.
DRIFTGATE_HD float phi_minus_any(float d, float& shrink) {
  if (fabsf(d) <= 1) {
    const float minus = phi_minus<2>(d, d * d);
    shrink = minus - d + 1;
    return minus;
  }
  shrink = exp2_fast(-d * kLog2e);
  return shrink - 1 + d;
}

struct FirstTerms {
  float sums[kHiddenFirst] = {};
  float low = kHugeFloat, high = -kHugeFloat;
};
/// x = z − m ≤ 0.
DRIFTGATE_HD void add_first(float x, float d, FirstTerms& to) {
  const float e = exp2_fast(x * kLog2e);
  float shrink;
  const float minus = phi_minus_any(d, shrink);
  const bool near = fabsf(d) <= 1;
  // e^{−d}·φ(d) = 1 − e^{−d}(1 + d), whose near form does not cancel.
  const float plus = near ? fmaf(-minus, 1 + d, d * d) : 1 - shrink * (1 + d);
  to.sums[0] += e;
  to.sums[1] = fmaf(e, d, to.sums[1]);
  to.sums[2] = fmaf(e, minus, to.sums[2]);
  to.sums[3] = fmaf(e, plus, to.sums[3]);
  to.sums[4] = fmaf(e, x, to.sums[4]);
  to.sums[5] = fmaf(e * shrink, x - d, to.sums[5]);
  to.sums[6] += d;
  to.sums[7] = fmaf(d, d, to.sums[7]);
  to.low = smaller(to.low, d), to.high = larger(to.high, d);
}

/// Σ_{k ≥ 1} of a series in x² (the coefficients of terms.hpp), and of e^d + e^{−d} − 2.
struct EvenSeries {
  float js, hellinger, chi;
};
DRIFTGATE_HD EvenSeries even_terms(float x) {
  const float js[] = {0.125F,         -0.015625F,     0.0017361111F,   -0.00018446181F, 1.922123e-05F,
                      -1.983553e-06F, 2.0358566e-07F, -2.0825878e-08F, 2.125733e-09F};
  const float sech[] = {0.125F,          -0.013020833F,  0.0013237847F,   -0.00013418046F, 1.3595931e-05F,
                        -1.3775627e-06F, 1.3957636e-07F, -1.4142043e-08F, 1.4328885e-09F};
  const float cosh[] = {1.0F, 1.0F / 12, 1.0F / 360, 1.0F / 20'160, 1.0F / 1'814'400, 1.0F / 239'500'800};
  EvenSeries out{0, 0, 0};
  DRIFTGATE_UNROLL
  for (int i = 8; i >= 0; --i)
    out.js = fmaf(out.js, x, js[i]), out.hellinger = fmaf(out.hellinger, x, sech[i]);
  DRIFTGATE_UNROLL
  for (int i = 5; i >= 0; --i) out.chi = fmaf(out.chi, x, cosh[i]);
  return {out.js * x, out.hellinger * x, out.chi * x};
}

struct SecondTerms {
  float sums[kHiddenSecond] = {};
  float low[kHeads], high[kHeads];
};
DRIFTGATE_HD SecondTerms no_second_terms() {
  SecondTerms out{};
  for (unsigned head = 0; head < kHeads; ++head) out.low[head] = kHugeFloat, out.high[head] = -kHugeFloat;
  return out;
}

/// kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2 of one column in units of e, and q.
DRIFTGATE_HD float terms_near(float e, float d, float (&out)[6]) {
  const float d2 = d * d, minus = phi_minus<2>(d, d2), ratio = minus - d;  // q/p − 1
  const EvenSeries even = even_terms(d2);
  const float m = e * fmaf(0.5F, ratio, 1.0F);
  out[0] = e * minus;
  out[1] = e * fmaf(-minus, 1 + d, d2);
  out[2] = e * fabsf(ratio) * 0.5F;
  out[3] = m * even.js;
  out[4] = m * even.hellinger;
  out[5] = e * even.chi;
  return fmaf(e, ratio, e);
}
DRIFTGATE_HD float terms_far(float e, float d, float (&out)[6]) {
  const float size = fabsf(d), q = e * exp2_fast(-d * kLog2e);
  const float root = exp2_fast(-0.5F * size * kLog2e), r = root * root;  // √(low/high)
  const float high = larger(e, q), low = smaller(e, q);
  const float shared = 0.69314718F - log1pf(r);
  out[0] = (q - e) + e * d;
  out[1] = (e - q) - q * d;
  out[2] = (high - low) * 0.5F;
  out[3] = (high * shared + low * (shared - size)) * 0.5F;
  out[4] = high * (1 - root) * (1 - root) * 0.5F;
  out[5] = (d > 0 ? e * exp2_fast(d * kLog2e) : q) * (1 - r) * (1 - r);
  return q;
}

DRIFTGATE_HD void add_second(float x, float d, const HiddenFrame& frame, SecondTerms& to) {
  const float e = exp2_fast(x * kLog2e);
  d += frame.offset;
  float terms[6];
  const float q = fabsf(d) <= 1 ? terms_near(e, d, terms) : terms_far(e, d, terms);
  DRIFTGATE_UNROLL
  for (unsigned i = 0; i < 6; ++i) to.sums[i] += terms[i];
  DRIFTGATE_UNROLL
  for (unsigned head = 0; head < kHeads; ++head) {
    const bool inside = e > frame.least_e[head];
    to.low[head] = smaller(to.low[head], inside ? d : kHugeFloat);
    to.high[head] = larger(to.high[head], inside ? d : -kHugeFloat);
    to.sums[6 + head] += inside ? 0.0F : e;
    to.sums[6 + kHeads + head] += inside ? 0.0F : q;
  }
}

}  // namespace driftgate::gpu::cuda
