#include "gpu/partial/divergence_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "gpu/cpu/row_engine.hpp"

namespace driftgate::gpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One summand of a divergence of p from q.
using Term = double (*)(double p, double q);

double tv_term(double p, double q) {
  return std::abs(p - q) / 2;
}

/// a·log(a/b) − a + b: the summand of KL(a‖b), which is never negative.
double kl_term(double a, double b) {
  if (a == 0) return b;
  if (b == 0) return kInfinity;
  const double x = std::log(b) - std::log(a);
  return std::abs(x) > 1 ? std::max(0.0, b - a - a * x) : a * cpu::phi(x);
}
double kl_train_inf_term(double p, double q) {
  return kl_term(p, q);
}
double kl_inf_train_term(double p, double q) {
  return kl_term(q, p);
}

double js_term(double p, double q) {
  const double middle = (p + q) / 2;
  if (middle == 0) return 0;
  return (kl_term(p, middle) + kl_term(q, middle)) / 2;
}

double hellinger2_term(double p, double q) {
  const double d = std::sqrt(p) - std::sqrt(q);
  return d * d / 2;
}

double chi2_term(double p, double q) {
  if (p == q) return 0;
  return q == 0 ? kInfinity : (p - q) * (p - q) / q;
}

/// The term is smallest at the corner of the box that is nearest to p = q.
double least(Term term, const MassPair& box) {
  if (box.p.lower > box.q.upper) return term(box.p.lower, box.q.upper);
  if (box.q.lower > box.p.upper) return term(box.p.upper, box.q.lower);
  return 0;
}

/// A convex term is largest at a corner.
double largest(Term term, const MassPair& box) {
  return std::max({term(box.p.lower, box.q.lower), term(box.p.lower, box.q.upper),
                   term(box.p.upper, box.q.lower), term(box.p.upper, box.q.upper)});
}

double sum_of_least(Term term, const std::vector<MassPair>& boxes) {
  double sum = 0;
  for (const MassPair& box : boxes) sum += least(term, box);
  return sum;
}

double lower_bound(const Support& support, Term term) {
  const double shared = sum_of_least(term, support.shared);
  if (support.complete) return shared;
  const double merged = least(term, support.tail);
  const double split = sum_of_least(term, support.only_train) + sum_of_least(term, support.only_inf) +
                       least(term, support.rest);
  return shared + std::max(merged, split);
}

/// `tail_weight`: the term of masses that do not overlap, for each unit of mass of either kernel.
double upper_bound(const Support& support, Term term, double tail_weight) {
  double sum = 0;
  for (const MassPair& box : support.shared) sum += largest(term, box);
  if (support.complete) return sum;
  return sum + tail_weight * (support.tail.p.upper + support.tail.q.upper);
}

/// q(A) − p(A) for a set A on which q is larger: tokens of H, and tokens that only inf reported. p gives each
/// of the latter at most `cap`, and all together at most `unnamed`: either the most likely ones are included
/// one by one, or all of them at the price of `unnamed`.
double one_sided_tv(const std::vector<MassPair>& shared, const std::vector<MassPair>& alone, double unnamed,
                    bool inf_larger) {
  double on_shared = 0;
  for (const MassPair& box : shared) {
    const double more = inf_larger ? box.q.lower - box.p.upper : box.p.lower - box.q.upper;
    on_shared += std::max(0.0, more);
  }
  double one_by_one = 0, together = -unnamed;
  for (const MassPair& box : alone) {
    const Interval& larger = inf_larger ? box.q : box.p;
    const double cap = (inf_larger ? box.p : box.q).upper;
    one_by_one += std::max(0.0, larger.lower - cap);
    together += larger.lower;
  }
  return on_shared + std::max({0.0, one_by_one, together});
}

/// The largest tv between a distribution and the one that its log-probabilities give.
double tv_of_error(const ScaledError& error) {
  return error.root_mean_square * std::exp(error.most) / 2;
}

/// tv is a metric: it is as far from that of the listed distributions as these are from the true ones.
Interval tv_of_lists(const Support& support) {
  double sum = 0;
  for (const MassPair& box : support.scaled) {
    sum += std::abs(std::sqrt(box.p.lower * box.p.upper) - std::sqrt(box.q.lower * box.q.upper)) / 2;
  }
  const double slack = tv_of_error(support.error_train) + tv_of_error(support.error_inf);
  return {sum - slack, sum + slack};
}

/// KL(a‖b) of the scaled masses, whose sums are not 1. `a`: the error of the kernel in the numerator.
Interval kl_of_lists(const Support& support, Term term, const ScaledError& a, const ScaledError& b) {
  double least_sum = 0, largest_sum = 0;
  for (const MassPair& box : support.scaled) {
    least_sum += least(term, box);
    largest_sum += largest(term, box);
  }
  const double apart =
      std::max(std::log(a.total.upper / b.total.lower), std::log(b.total.upper / a.total.lower));
  return {least_sum / a.total.upper - cpu::phi(apart), largest_sum / a.total.lower};
}

/// The tighter one of two bounds on each side.
Interval meet(const Interval& a, const Interval& b) {
  const double upper = std::min(a.upper, b.upper);
  return {std::clamp(b.lower, std::min(a.lower, upper), upper), upper};
}

Interval tv_bounds(const Support& support) {
  double lower = lower_bound(support, tv_term);
  if (!support.complete) {
    lower = std::max({lower, one_sided_tv(support.shared, support.only_inf, support.unnamed_train, true),
                      one_sided_tv(support.shared, support.only_train, support.unnamed_inf, false)});
  }
  double common = 0;
  for (const MassPair& box : support.shared) common += std::min(box.p.lower, box.q.lower);
  const double upper = std::clamp(std::min(1 - common, upper_bound(support, tv_term, 0.5)), 0.0, 1.0);
  const Interval boxes{std::min(lower, upper), upper};
  return support.scaled.empty() ? boxes : meet(boxes, tv_of_lists(support));
}

}  // namespace

DivergenceBounds divergence_bounds(const Support& support) {
  const double none = support.complete ? 0 : kInfinity;
  const auto bounds = [&](Term term, double tail_weight, double top) {
    const double upper = std::min(top, upper_bound(support, term, tail_weight));
    return Interval{std::min(lower_bound(support, term), upper), upper};
  };
  Interval train_inf = bounds(kl_train_inf_term, none, kInfinity);
  Interval inf_train = bounds(kl_inf_train_term, none, kInfinity);
  if (!support.scaled.empty()) {
    const ScaledError &train = support.error_train, &inf = support.error_inf;
    train_inf = meet(train_inf, kl_of_lists(support, kl_train_inf_term, train, inf));
    inf_train = meet(inf_train, kl_of_lists(support, kl_inf_train_term, inf, train));
  }
  return {tv_bounds(support),
          train_inf,
          inf_train,
          bounds(js_term, std::numbers::ln2 / 2, std::numbers::ln2),
          bounds(hellinger2_term, 0.5, 1),
          bounds(chi2_term, none, kInfinity)};
}

}  // namespace driftgate::gpu
