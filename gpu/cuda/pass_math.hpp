#pragma once

#include "gpu/cuda/records.hpp"

/// Scalar float64 arithmetic between and after the passes (measurement.md, section 2), for one thread.
namespace driftgate::gpu::cuda {

/// o in log p − log q = ((z − y) − c) + o: log E_p[e^{−d'}], never a difference of two log-sum-exps as long
/// as a double holds the alternative.
DRIFTGATE_HD double offset_of(const PassSums& sums) {
  constexpr double kWellConditioned = -0.5;
  const double u = (sums.g - sums.s) / sums.l_p;
  const double x = (sums.h + sums.t) / sums.l_q;
  const double most = 1e300;  // false for NaN and infinity
  if (u >= 0 && u < most) return std::log1p(u);
  if (x > kWellConditioned && x < most) return -std::log1p(x);
  if (u > kWellConditioned && u < most) return std::log1p(u);
  // Only drifts of hundreds of nats come here: the sums overflowed, and the cancellation is harmless.
  return sums.c - ((sums.m_p + std::log(sums.l_p)) - (sums.m_q + std::log(sums.l_q)));
}

/// Head sets for link 2. A token outside has p ≤ share·σ/n, so that the tail's mass stays below share·σ,
/// where σ² = 2·KL is about the variance of the log-ratio.
DRIFTGATE_HD double least_of_head(const PassSums& sums, unsigned head) {
  const double u = (sums.g - sums.s) / sums.l_p;
  const double kl = sums.g / sums.l_p - (u - std::log1p(u));
  const double sigma = kl < 0.5 ? std::sqrt(2 * (kl > 0 ? kl : 0.0)) : 1.0;
  return (head == 0 ? 0.003 : 0.3) * sigma / sums.n;
}

/// The sums of a row that the float32 kernel took, for the formulas of float64.
DRIFTGATE_HD PassSums pass_of(const FastRow& row, std::uint32_t columns) {
  PassSums out{};
  out.c = row.c;
  out.m_p = static_cast<double>(row.top_z);
  out.m_q = out.m_p - row.c;
  out.l_p = 1 + row.sums[0];
  out.s = row.sums[1], out.g = row.sums[2], out.a_p = row.sums[3];
  // Σe^{y−m_q}(e^{d'} − 1) = Σe^{z−m_p} − Σe^{y−m_q} = S − G. The offset needs T + H only.
  out.l_q = out.l_p - out.s + out.g;
  out.t = out.s - out.g;
  out.n = static_cast<double>(columns);
  out.mean_drift = row.c + row.sums[4] / out.n;
  const double centred = row.sums[5] - row.sums[4] * row.sums[4] / out.n;
  out.m2 = centred > 0 ? centred : 0;
  out.min_drift = row.c + row.low, out.max_drift = row.c + row.high;
  return out;
}

}  // namespace driftgate::gpu::cuda
