#pragma once

#include "gpu/backend/backend_input.hpp"
#include "gpu/cuda/records.hpp"

/// Scalar float64 arithmetic between and after the passes (docs/design/measurement.md, "The divergences in
/// floating point"), for one thread.
namespace driftgate::gpu::cuda {

/// The offset o in log p − log q = ((z − y) − c) + o, that is log E_p[e^{−d'}]. Never computed as a
/// difference of two log-sum-exps, as long as the alternative fits into a double.
DRIFTGATE_HD double offset_of(const PassSums& sums) {
  constexpr double kWellConditioned = -0.5;
  const double u = (sums.g - sums.s) / sums.l_p;
  const double x = (sums.h + sums.t) / sums.l_q;
  const double most = 1e300;  // false for NaN and infinity
  if (u >= 0 && u < most) return std::log1p(u);
  if (x > kWellConditioned && x < most) return -std::log1p(x);
  if (u > kWellConditioned && u < most) return std::log1p(u);
  // Reached only by drifts of hundreds of nats: the sums overflowed, and the cancellation is harmless.
  return sums.c - ((sums.m_p + std::log(sums.l_p)) - (sums.m_q + std::log(sums.l_q)));
}

DRIFTGATE_HD double sentinel_bound(double temperature) {
  return temperature < 1 ? kSentinelBound / temperature : kSentinelBound;
}

/// The head sets of link 2 (docs/design/measurement.md, "Link 2: head and tail"). A token outside has p ≤
/// share·σ/n, so that the mass of the tail is below share·σ, where σ² = 2·KL is about the variance of the
/// log-ratio.
DRIFTGATE_HD double least_of_head(const PassSums& sums, unsigned head) {
  const double u = (sums.g - sums.s) / sums.l_p;
  const double kl = sums.g / sums.l_p - (u - std::log1p(u));
  const double sigma = kl < 0.5 ? std::sqrt(2 * (kl > 0 ? kl : 0.0)) : 1.0;
  return (head == 0 ? 0.003 : 0.3) * sigma / sums.n;
}

/// Converts the sums of the float32 kernel to those that the float64 formulas use.
DRIFTGATE_HD PassSums pass_of(const FastRow& row) {
  PassSums out{};
  out.c = row.c;
  out.m_p = static_cast<double>(row.top_z);
  out.m_q = out.m_p - row.c;
  out.l_p = 1 + row.sums[0];
  out.s = row.sums[1], out.g = row.sums[2], out.a_p = row.sums[3];
  // Σe^{y−m_q}(e^{d'} − 1) = Σe^{z−m_p} − Σe^{y−m_q} = S − G. The offset needs T + H only.
  out.l_q = out.l_p - out.s + out.g;
  out.t = out.s - out.g;
  out.a_q = row.sums[6];
  out.n = static_cast<double>(row.unmasked);
  out.mean_drift = row.c + row.sums[4] / out.n;
  const double centred = row.sums[5] - row.sums[4] * row.sums[4] / out.n;
  out.m2 = centred > 0 ? centred : 0;
  out.min_drift = row.c + row.low, out.max_drift = row.c + row.high;
  return out;
}

/// Coefficients of d^k in the figures of one column in units of p, k = 2 … 11.
struct MomentSeries {
  double kl_train_inf, kl_inf_train, js, hellinger2, chi2;
};
DRIFTGATE_HD MomentSeries moment_series(int k) {
  // ½(log 2/(1 + e^{−d}) + e^{−d}·log 2e^{−d}/(1 + e^{−d}))
  const double js[] = {1.0 / 8,      -1.0 / 16,   1.0 / 64,      -1.0 / 384,        1.0 / 2304,
                       -1.0 / 11520, 1.0 / 92160, 1.0 / 3870720, -1.0 / 38707200.0, -11.0 / 116121600.0};
  const double sign = k % 2 == 0 ? 1 : -1;
  double inverse = 1;
  for (int i = 2; i <= k; ++i) inverse /= i;
  double half = 1;
  for (int i = 0; i < k; ++i) half /= 2;
  return {sign * inverse, sign * (k - 1) * inverse, js[k - 2], sign * (0.5 - half) * inverse,
          k % 2 == 0 ? 2 * inverse : 0.0};
}

/// u − log(1 + u) without cancellation.
DRIFTGATE_HD double minus_log1p(double u) {
  if (std::fabs(u) > 0.05) return u - std::log1p(u);
  double sum = 0;
  for (int k = 14; k >= 2; --k) sum = sum * -u + 1.0 / k;
  return sum * u * u;
}

/// Both KL divergences from pass 1 alone, by the moments of d' (Σe·d^k, k = 2 … 11) and Σe·d'; fills in
/// row.sums and row.kl_*. Returns false when float32 sums may exceed the permitted error
/// (docs/design/measurement.md, "Error bounds").
DRIFTGATE_HD bool one_pass(const double* moments, double rest, double s, FastRow& row) {
  constexpr double kRounding = 8 * 5.9604644775390625e-08;
  double g = 0, h = 0;
  for (int k = 2; k <= kMostMoment; ++k) {
    const MomentSeries series = moment_series(k);
    g += series.kl_train_inf * moments[k - 2];
    h += series.kl_inf_train * moments[k - 2];  // Σ e^{y−m_q}·φ(d')
  }
  row.sums[0] = rest, row.sums[1] = s, row.sums[2] = g;
  const double l_p = 1 + rest, l_q = l_p - s + g, u = (g - s) / l_p, x = (s - g) / l_q;
  row.kl_train_inf = g / l_p - minus_log1p(u);
  row.kl_inf_train = h / l_q - minus_log1p(x);
  const double t = s - g - h;
  const double error_p = kRounding * (g / l_p + (g + std::fabs(s)) / l_p * std::fabs(u / (1 + u)));
  const double error_q = kRounding * (h / l_q + (h + std::fabs(t)) / l_q * std::fabs(x / (1 + x)));
  return error_p <= std::fmax(1e-6 * row.kl_train_inf, 1e-15) &&
         error_q <= std::fmax(1e-6 * row.kl_inf_train, 1e-15);
}

}  // namespace driftgate::gpu::cuda
