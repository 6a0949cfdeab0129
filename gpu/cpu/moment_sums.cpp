#include "gpu/cpu/moment_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace driftgate::gpu::cpu {

namespace {

constexpr std::size_t kTerms = kMostPowers + 1;
using Series = std::array<double, kTerms>;

constexpr Series inverse_factorials() {
  Series out{1.0};
  for (std::size_t k = 1; k < kTerms; ++k) out[k] = out[k - 1] / static_cast<double>(k);
  return out;
}

/// Taylor coefficients in d of the term of one column over its p, given q = p·e^{−d}.
struct Coefficients {
  Series shrink{}, kl_pq{}, kl_qp{}, hellinger{}, chi{};
};
constexpr Coefficients coefficients() {
  constexpr Series kOver = inverse_factorials();
  Coefficients out;
  double sign = 1, half = 1;
  for (std::size_t k = 0; k < kTerms; ++k, sign = -sign, half /= 2) {
    out.shrink[k] = k > 0 ? sign * kOver[k] : 0;  // e^{−d} − 1
    if (k < 2) continue;
    out.kl_pq[k] = sign * kOver[k];                               // φ(−d)
    out.kl_qp[k] = sign * static_cast<double>(k - 1) * kOver[k];  // e^{−d}·φ(d)
    out.hellinger[k] = sign * kOver[k] * (0.5 - half);            // ½(1 − e^{−d/2})²
    out.chi[k] = k % 2 == 0 ? 2 * kOver[k] : 0;                   // e^d − 2 + e^{−d}
  }
  return out;
}
constexpr Coefficients kSeries = coefficients();

/// ½[ln 2 − log(1 + e^{−d}) + e^{−d}(ln 2 − d − log(1 + e^{−d}))].
constexpr Series kJs = {0,
                        0,
                        1.0 / 8,
                        -1.0 / 16,
                        1.0 / 64,
                        -1.0 / 384,
                        1.0 / 2304,
                        -1.0 / 11520,
                        1.0850694444444445e-05,
                        2.5834986772486774e-07,
                        -2.5834986772486774e-08,
                        -9.47282848324515e-08,
                        7.894023736037624e-09};

/// Bound of the first omitted terms after power kPowers[form], relative to ½Σe·d²: the largest of all series.
/// Where the series stops before an odd power, it is multiplied by D·Σe·d^k (k even), else by D²·Σe·d^(k−1).
constexpr double kLeftOut[kMomentForms] = {2 * 5.0 / 720, 2 * 8.0 / 362'880, 8.0 * 6.4e-9};

double dot(const Series& a, const Series& b, std::size_t most) {
  double out = 0;
  for (std::size_t k = most + 1; k-- > 0;) out += a[k] * b[k];
  return out;
}

constexpr std::array<Series, kTerms> binomials() {
  std::array<Series, kTerms> out{};
  for (std::size_t k = 0; k < kTerms; ++k) {
    out[k][0] = 1;
    for (std::size_t j = 1; j <= k; ++j) out[k][j] = out[k - 1][j - 1] + (j < k ? out[k - 1][j] : 0);
  }
  return out;
}
constexpr std::array<Series, kTerms> kBinomials = binomials();

/// Σe·(d − delta)^k from Σe·d^k.
void shift_powers(double* m, std::size_t most, double delta) {
  double powers[kTerms];
  powers[0] = 1;
  for (std::size_t k = 1; k <= most; ++k) powers[k] = -delta * powers[k - 1];
  for (std::size_t k = most; k > 0; --k) {
    double out = 0;
    for (std::size_t j = 0; j <= k; ++j) out += kBinomials[k][j] * powers[j] * m[k - j];
    m[k] = out;
  }
}

}  // namespace

void move(MomentSums& sums, std::size_t form, double delta, double rise) {
  if (delta != 0) {
    shift_powers(sums.m, kPowers[form], delta);
    shift_powers(sums.x, kCross[form], delta);
  }
  for (std::size_t k = 0; k <= kCross[form]; ++k) sums.x[k] -= rise * sums.m[k];
  sums.d2 += delta * (delta * sums.n - 2 * sums.d1);
  sums.d1 -= delta * sums.n;
  sums.low -= delta;
  sums.high -= delta;
}

void add_column(MomentSums& sums, const MomentColumn& column) {
  double e = column.e;
  for (double& m : sums.m) {
    m += e;
    e *= column.d;
  }
  if (column.x == 0) return;
  e = column.e * column.x;
  for (double& x : sums.x) {
    x += e;
    e *= column.d;
  }
}

void scale(MomentSums& sums, double factor) {
  for (double& m : sums.m) m *= factor;
  for (double& x : sums.x) x *= factor;
}

MomentFigures figures_of(const MomentSums& sums, std::size_t form, const MomentColumn& alone,
                         double weight_error, double stretch) {
  MomentSums rest = sums;
  for (std::size_t k = 0; k <= 2; ++k) rest.m[k] -= weight_error * rest.x[k];
  const double alone_e = alone.e * (1 - weight_error * alone.x);
  const std::size_t most = kPowers[form];
  const double beside = rest.m[0];
  add_column(rest, {alone_e, alone.d, alone.x});
  const double all = rest.m[0];
  double power = 1;
  double mu[kTerms] = {};
  for (std::size_t k = 0; k <= most; ++k, power *= stretch) mu[k] = rest.m[k] / all * power;
  mu[0] = 1;
  MomentFigures out{};
  out.rest = beside / alone_e;
  out.log_sum = std::log1p(out.rest) + alone.x;
  Series about_pivot{};
  std::copy_n(mu, kTerms, about_pivot.begin());
  const double u = dot(kSeries.shrink, about_pivot, most);
  out.growth = 1 + u;
  out.offset = std::log1p(u);
  out.mean = mu[1];
  const double o = out.offset;
  out.low = sums.low * stretch + o, out.high = sums.high * stretch + o;
  const double terms = mu[2] + 2 * std::abs(o * mu[1]) + o * o;
  shift_powers(mu, most, -o);
  Series m{};
  std::copy_n(mu, most + 1, m.begin());
  out.second = m[2], out.fourth = m[4];
  out.lost = m[2] > 0 ? terms / m[2] : terms > 0 ? HUGE_VAL : 1.0;
  out.kl_train_inf = dot(kSeries.kl_pq, m, most);
  out.kl_inf_train = dot(kSeries.kl_qp, m, most);
  out.js = dot(kJs, m, most);
  out.hellinger2 = dot(kSeries.hellinger, m, most);
  out.chi2 = dot(kSeries.chi, m, most);
  const double size = std::max(std::abs(out.low), std::abs(out.high));
  out.remainder = m[2] > 0 ? left_out(mu, form, size) / m[2] : 0.0;
  double cross = 0;
  const std::size_t most_cross = kCross[form];
  for (std::size_t k = most_cross + 1; k-- > 0;) cross += kSeries.shrink[k] * rest.x[k];
  cross = (cross + rest.x[0]) / all / out.growth;
  out.entropy_train = std::max(0.0, out.log_sum - rest.x[0] / all);
  out.entropy_inf = std::max(0.0, out.log_sum - cross - out.kl_inf_train);
  const double reach = std::max(std::abs(sums.low), std::abs(sums.high));
  const std::size_t even =
      most_cross / 2 * 2;  // Σe·x·d'^k of an even k bounds what follows: all its terms are ≤ 0
  double ahead = std::exp(reach);
  for (std::size_t k = even; k <= most_cross; ++k) ahead *= reach;
  out.cross_left = std::abs(rest.x[even] / all * kSeries.shrink[most_cross + 1]) * ahead;
  return out;
}

double left_out(const double* m, std::size_t form, double reach) {
  const std::size_t most = kPowers[form];
  const double left = most % 2 == 0 ? reach * m[most] : reach * reach * m[most - 1];
  return kLeftOut[form] * left * std::exp(reach);
}

MomentFault fault_of(const MomentFigures& figures, double bulk, double remainder) {
  constexpr double kLost = 6.0;  // acceptable cancellation in sums of float32 terms
  constexpr double kEntropy = 3e-7, kEntropyFloor = 1e-13;
  if (!std::isfinite(figures.offset) || !(figures.lost < kLost)) return MomentFault::cancelled;
  if (!(bulk <= kLost * figures.second)) return MomentFault::cancelled;
  if (!(figures.remainder < remainder)) return MomentFault::more_powers;
  const bool entropy = figures.cross_left < kEntropy * figures.entropy_inf + kEntropyFloor;
  return entropy ? MomentFault::none : MomentFault::more_powers;
}

Pass1 pass1_of(const MomentFigures& figures, const MomentPlace& place) {
  const double u = std::expm1(figures.offset);
  Pass1 out{};
  out.c = place.pivot;
  out.n = place.n, out.mean_drift = place.mean_drift, out.m2 = place.m2;
  out.min_drift = place.min_drift, out.max_drift = place.max_drift;
  out.m_p = place.top;
  out.l_p = std::exp(figures.log_sum);
  out.s = figures.mean * out.l_p;
  out.g = (u + figures.mean) * out.l_p;
  out.a_p = (figures.log_sum - figures.entropy_train) * out.l_p;
  out.m_q = place.top_inf;
  out.l_q = out.l_p * figures.growth * std::exp((place.top - place.pivot) - place.top_inf);
  out.t = -u / figures.growth * out.l_q;  // with h = 0: only t + h is used
  out.a_q = (std::log(out.l_q) - figures.entropy_inf) * out.l_q;
  return out;
}

}  // namespace driftgate::gpu::cpu
