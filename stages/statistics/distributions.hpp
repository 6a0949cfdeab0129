#pragma once

#include <cmath>
#include <cstdint>

namespace driftgate::stages {

/// Φ(z), the standard normal distribution function, and its inverse.
[[nodiscard]] double normal_cdf(double z);
[[nodiscard]] double normal_quantile(double p);
/// The distribution function of Student's t with `degrees` > 0 degrees of freedom, and its inverse.
[[nodiscard]] double student_cdf(double t, double degrees);
[[nodiscard]] double student_quantile(double p, double degrees);

/// P(Bin(n, p) ≤ k) and P(Bin(n, p) ≥ k), exact, by the incomplete beta function.
[[nodiscard]] double binomial_at_most(std::uint64_t k, std::uint64_t n, double p);
[[nodiscard]] double binomial_at_least(std::uint64_t k, std::uint64_t n, double p);

/// P(X ≥ k), where X is the number of marked items among `drawn` items that are drawn without replacement
/// from `pool` items, of which `marked` are marked: the p-value of Fisher's exact test, one-sided. Relative
/// error about 1e-15 · pool · ln pool. Precondition: drawn ≤ pool, marked ≤ pool.
[[nodiscard]] double hypergeometric_at_least(std::uint64_t k, std::uint64_t drawn, std::uint64_t marked,
                                             std::uint64_t pool);

/// One-sided confidence limits of a rate, each at level 1 − alpha, after k events in n independent trials
/// (Clopper & Pearson, Biometrika 1934). For n = 0 they are 0 and 1.
[[nodiscard]] double clopper_pearson_lower(std::uint64_t k, std::uint64_t n, double alpha);
[[nodiscard]] double clopper_pearson_upper(std::uint64_t k, std::uint64_t n, double alpha);
/// The upper limit for numbers of events and trials that are no integers, as effective sample sizes are: the
/// same quantile of the beta distribution. 1 for n ≤ 0 and k ≥ n.
[[nodiscard]] double upper_of_fractional_counts(double k, double n, double alpha);

/// The upper limit of a rate after n trials without an event: 1 − α^{1/n}.
[[nodiscard]] double zero_event_bound(std::uint64_t n, double alpha);
/// The least number of trials without an event that proves a rate of at most `max`; the largest std::uint64_t
/// for max ≤ 0.
[[nodiscard]] std::uint64_t zero_event_units(double max, double alpha);

/// The p-value of a proof by confidence limits: the smallest level at which `proven(level)` is true, by
/// bisection of its logarithm from 10^−12 on; 1 if there is none. Precondition: if `proven` is true at a
/// level, it is true at every larger one.
template <typename Predicate>
[[nodiscard]] double smallest_level(Predicate proven) {
  double no = std::log(1e-12);
  double yes = 0;
  if (!proven(1 - 1e-12)) return 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (no + yes) / 2;
    (proven(std::exp(middle)) ? yes : no) = middle;
  }
  return std::exp(yes);
}

/// ln B(a, b), the logarithm of the beta function.
[[nodiscard]] double log_beta(double a, double b);

}  // namespace driftgate::stages
