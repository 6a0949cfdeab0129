#include "stages/statistics/distributions.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <limits>

namespace driftgate::stages {
namespace {

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

}  // namespace

double normal_cdf(double z) {
  return std::isinf(z) ? (z > 0 ? 1.0 : 0.0) : boost::math::cdf(boost::math::normal{}, z);
}

double normal_quantile(double p) {
  return boost::math::quantile(boost::math::normal{}, p);
}

double student_cdf(double t, double degrees) {
  if (std::isinf(t)) return t > 0 ? 1.0 : 0.0;
  return boost::math::cdf(boost::math::students_t{degrees}, t);
}

double student_quantile(double p, double degrees) {
  return boost::math::quantile(boost::math::students_t{degrees}, p);
}

double binomial_at_most(std::uint64_t k, std::uint64_t n, double p) {
  if (k >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  return boost::math::ibetac(static_cast<double>(k) + 1, static_cast<double>(n - k), p);
}

double binomial_at_least(std::uint64_t k, std::uint64_t n, double p) {
  if (k == 0) return 1;
  if (k > n || p <= 0) return 0;
  if (p >= 1) return 1;
  return boost::math::ibeta(static_cast<double>(k), static_cast<double>(n - k) + 1, p);
}

double hypergeometric_at_least(std::uint64_t k, std::uint64_t drawn, std::uint64_t marked,
                               std::uint64_t pool) {
  const std::uint64_t unmarked = pool - marked;
  const std::uint64_t least = drawn > unmarked ? drawn - unmarked : 0;
  const std::uint64_t most = std::min(drawn, marked);
  if (k <= least) return 1;
  if (k > most) return 0;
  const auto m = static_cast<double>(drawn);
  const auto in = static_cast<double>(marked);
  const auto out = static_cast<double>(unmarked);
  const double all = log_choose(in + out, m);
  double sum = 0;
  for (std::uint64_t i = k; i <= most; ++i) {
    const auto x = static_cast<double>(i);
    sum += std::exp(log_choose(in, x) + log_choose(out, m - x) - all);
  }
  return std::min(1.0, sum);
}

double clopper_pearson_lower(std::uint64_t k, std::uint64_t n, double alpha) {
  if (k == 0 || n == 0) return 0;
  return boost::math::ibeta_inv(static_cast<double>(k), static_cast<double>(n - k) + 1, alpha);
}

double clopper_pearson_upper(std::uint64_t k, std::uint64_t n, double alpha) {
  if (n == 0 || k >= n) return 1;
  if (k == 0) return zero_event_bound(n, alpha);
  return boost::math::ibetac_inv(static_cast<double>(k) + 1, static_cast<double>(n - k), alpha);
}

double upper_of_fractional_counts(double k, double n, double alpha) {
  if (!(n > 0) || k >= n) return 1;
  return boost::math::ibetac_inv(k + 1, n - k, alpha);
}

double zero_event_bound(std::uint64_t n, double alpha) {
  return n == 0 ? 1.0 : -std::expm1(std::log(alpha) / static_cast<double>(n));
}

std::uint64_t zero_event_units(double max, double alpha) {
  if (max <= 0) return std::numeric_limits<std::uint64_t>::max();
  if (max >= 1) return 1;
  return static_cast<std::uint64_t>(std::ceil(std::log(alpha) / std::log1p(-max)));
}

double log_beta(double a, double b) {
  return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
}

}  // namespace driftgate::stages
