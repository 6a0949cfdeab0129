#pragma once

#include "gpu/cuda/records.hpp"

/// The terms of one column in float64, for pass 1 and pass 2 and for any drift (docs/design/measurement.md,
/// "Large drifts" and "Pass 2: sums of non-negative terms").
namespace driftgate::gpu::cuda {

/// The terms of pass 1 of one column, in the order l_p, s, g, a_p, l_q, t, h, a_q, Σd', Σd'².
constexpr unsigned kWideFirst = 10;

/// z' = z − m_p, y' = y − m_q, d = d'.
DRIFTGATE_HD void add_wide_first(double z, double y, double d, double (&sums)[kWideFirst]) {
  const double e = std::exp(z), f = std::exp(y);
  const bool near = std::fabs(d) <= 1;
  sums[0] += e;
  sums[1] += e * d;
  // Where |d'| > 1 φ is never formed: e^{y + c − m_p} = e^{z − m_p − d'}, and alike for q.
  sums[2] += near ? e * phi(-d) : std::exp(z - d) - e + e * d;
  sums[3] += e * z;
  sums[4] += f;
  sums[5] += f * d;
  sums[6] += near ? f * phi(d) : std::exp(y + d) - f - f * d;
  sums[7] += f * y;
  sums[8] += d;
  sums[9] += d * d;
}

/// The terms of pass 2 of one column, and its q.
struct Terms {
  double kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2, q;
};

/// js and hellinger2 in units of m = (p + q)/2 are even in d: ½ψ(d) with t = tanh(d/2) and
/// ψ = (1 − t)·log(1 − t) + (1 + t)·log(1 + t), and 1 − sech(d/2); Taylor coefficients in d².
DRIFTGATE_HD double even_series(double x, bool hellinger) {
  const double js[] = {0.125,
                       -0.015625,
                       0.001736111111111111,
                       -0.00018446180555555555,
                       1.922123015873016e-05,
                       -1.983552873309818e-06,
                       2.0358566055490657e-07,
                       -2.082587795807817e-08,
                       2.1257329508622406e-09,
                       -2.1664872983109939e-10};
  const double sech[] = {0.125,
                         -0.013020833333333334,
                         0.0013237847222222223,
                         -0.00013418046254960319,
                         1.359593090346671e-05,
                         -1.3775626977616046e-06,
                         1.3957636078886898e-07,
                         -1.4142042959250212e-08,
                         1.4328885416129856e-09,
                         -1.4518196317479765e-10};
  double out = 0;
  DRIFTGATE_UNROLL
  for (int i = 9; i >= 0; --i) out = out * x + (hellinger ? sech[i] : js[i]);
  return out * x;
}

DRIFTGATE_HD Terms terms_of(double p, double log_p, double d) {
  Terms out;
  if (std::fabs(d) <= 1) {
    const double minus = phi(-d), plus = phi(d);
    const double ratio = minus - d;  // q/p − 1
    out.q = p + p * ratio;
    const double m = (p + out.q) * 0.5;
    out.kl_train_inf = p * minus;
    out.kl_inf_train = out.q * plus;
    out.tv = p * std::fabs(ratio) * 0.5;
    out.js = m * even_series(d * d, false);
    out.hellinger2 = m * even_series(d * d, true);
    out.chi2 = p * ratio * ratio * (plus + d + 1.0);
    return out;
  }
  const double q = std::exp(log_p - d), size = std::fabs(d);
  const double root = std::exp(size * -0.5);  // √(low / high)
  const double r = root * root;
  const double high = p > q ? p : q, low = p > q ? q : p;
  const double shared = 0.6931471805599453 - std::log1p(r);
  out.kl_train_inf = (q - p) + p * d;
  out.kl_inf_train = (p - q) - q * d;
  out.tv = (high - low) * 0.5;
  out.js = (high * shared + low * (shared - size)) * 0.5;
  out.hellinger2 = high * (1.0 - root) * (1.0 - root) * 0.5;
  // (p − q)²/q: where p is the larger it is p·e^d·(1 − r)², whose factors can overflow one by one.
  out.chi2 = (d > 0 ? std::exp(log_p + d) : q) * (1.0 - r) * (1.0 - r);
  out.q = q;
  return out;
}

DRIFTGATE_HD void add_to_head(double p, double q, double d, HeadSums& head) {
  if (p > head.least_p) {
    head.min_d = d < head.min_d ? d : head.min_d;
    head.max_d = d > head.max_d ? d : head.max_d;
  } else {
    head.tail_p += p;
    head.tail_q += q;
  }
}

DRIFTGATE_HD void add_terms(const Terms& from, double p, double d, TermSums& to) {
  to.kl_train_inf += from.kl_train_inf, to.kl_inf_train += from.kl_inf_train;
  to.tv += from.tv, to.js += from.js;
  to.hellinger2 += from.hellinger2, to.chi2 += from.chi2;
  for (unsigned head = 0; head < kHeads; ++head) add_to_head(p, from.q, d, to.heads[head]);
}

}  // namespace driftgate::gpu::cuda
