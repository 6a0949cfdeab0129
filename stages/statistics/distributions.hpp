#pragma once

#include <cmath>
#include <cstdint>

namespace driftgate::stages {

/// Φ(z) and its inverse.
[[nodiscard]] double normal_cdf(double z);
[[nodiscard]] double normal_quantile(double p);
/// P(T ≤ t) of Student's t with `degrees` > 0, and its inverse.
[[nodiscard]] double student_cdf(double t, double degrees);
[[nodiscard]] double student_quantile(double p, double degrees);

/// P(Bin(n, p) ≤ k) and P(Bin(n, p) ≥ k), exact through the incomplete beta function.
[[nodiscard]] double binomial_at_most(std::uint64_t k, std::uint64_t n, double p);
[[nodiscard]] double binomial_at_least(std::uint64_t k, std::uint64_t n, double p);

/// One-sided limits of a rate at level 1 − alpha each (Clopper & Pearson, Biometrika 1934).
/// Exact for independent trials; n = 0 gives 0 and 1.
[[nodiscard]] double clopper_pearson_lower(std::uint64_t k, std::uint64_t n, double alpha);
[[nodiscard]] double clopper_pearson_upper(std::uint64_t k, std::uint64_t n, double alpha);

/// The upper limit of a rate after no event in n units: 1 − α^{1/n}.
[[nodiscard]] double zero_event_bound(std::uint64_t n, double alpha);
/// The least n whose zero events prove a rate at or under `max`.
[[nodiscard]] std::uint64_t zero_event_units(double max, double alpha);

/// The p-value of a proof by confidence limits: the smallest level at which `proven(level)` holds, which must
/// go on holding at every larger one; by bisection on its logarithm, 1 when it never holds.
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

/// ln B(a, b).
[[nodiscard]] double log_beta(double a, double b);

}  // namespace driftgate::stages
