#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <complex>
#include <numbers>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"

// The weights of Gaffke's bound are independent exponential variables E_i over their sum. The weighted mean
// is therefore at least τ exactly where Q = Σ E_i·(x_i − τ) ≥ 0, and with M(s) = Π 1/(1 − s·(x_i − τ)) that
// has the probability (1/2πi)·∫ M(s)/s ds over any curve from −i∞ to i∞ between 0 and the first pole of M
// (Bromwich). The curve goes through the saddle of M(s)/s and bends as the path of steepest descent does
// there, and a trapezium rule in u with s = saddle + width·(bend·(cosh u − 1) + i·sinh u) converges
// geometrically (Trefethen & Weideman, SIAM Review 2014). Nothing is drawn and nothing cancels.

namespace driftgate::stages {
namespace {

using Complex = std::complex<double>;

constexpr double kRelativeError = 1e-9;      ///< of the quadrature
constexpr double kLeastProbability = 1e-15;  ///< below it Chernoff's bound stands for the probability
constexpr double kLeastStep = 1.0 / 512;
constexpr double kNegligible = 1e-17;  ///< of a term beside the sum
constexpr std::uintmax_t kMostLimitSteps = 60;

/// A value that `count` observations have. Their exponential weights add up to a gamma variable.
struct Tie {
  double value = 0, count = 0;
};

/// M(saddle)/M(saddle + δ) = Π (1 − δ·b)^{count}, b being the value over 1 − saddle·value. Infinite where it
/// is too large to matter.
Complex divisor(std::span<const Tie> tilted, Complex delta) {
  constexpr double kLargest = 1e60;  // of the square
  Complex product = 1;
  for (const auto& [b, count] : tilted) {
    const double re = 1 - delta.real() * b, im = -delta.imag() * b;
    if (count == 1) {
      product = {product.real() * re - product.imag() * im, product.real() * im + product.imag() * re};
    } else {
      const double log_size = count / 2 * std::log(re * re + im * im);
      if (log_size > std::log(kLargest)) return std::numeric_limits<double>::infinity();
      product *= std::polar(std::exp(log_size), count * std::atan2(im, re));
    }
    if (std::norm(product) > kLargest) return std::numeric_limits<double>::infinity();
  }
  return product;
}

/// A probability that is known to lie between two values, which are equal where the quadrature converged.
struct Enclosed {
  double at_least = 0, at_most = 1;
};

/// P(Q ≥ 0) of Q = Σ Γ_j·value_j with independent gamma variables of shapes `count`. Precondition: the mean
/// of Q is not positive, and some value is.
class UpperTail {
 public:
  explicit UpperTail(std::span<const Tie> terms) : terms_(terms) {
    for (const auto& [value, count] : terms_) pole_ = std::max(pole_, value);
    find_saddle();
    for (const auto& [value, count] : terms_) {
      tilted_.push_back({value / (1 - saddle_ * value), count});
      log_bound_ -= count * std::log1p(-saddle_ * value);
    }
  }

  [[nodiscard]] Enclosed probability() const {
    const double bound = std::min(1.0, std::exp(log_bound_));  // Chernoff
    if (bound < kLeastProbability) return {0, bound};
    const double scale = std::exp(log_bound_) / (saddle_ * std::numbers::pi);
    double sum = width_ / 2;  // half of the term at u = 0
    double before = -1;
    for (double step = 0.5; step >= kLeastStep; step /= 2) {
      add_terms(step, before < 0 ? 1 : 2, sum);
      const double now = scale * sum * step;
      if (now > 0 && std::abs(now - before) <= kRelativeError * now) {
        const double found = std::min(now, bound);
        return {found, found};
      }
      before = now;
    }
    return {0, bound};
  }

 private:
  /// The s in (0, 1/largest value) where M(s)/s is least, to a thousandth of the width of the integrand
  /// there.
  void find_saddle() {
    double low = 0, high = 1 / pole_;
    saddle_ = high / 2;
    for (int i = 0; i < 200; ++i) {
      double slope = -1 / saddle_, curvature = 1 / (saddle_ * saddle_), third = -2 * curvature / saddle_;
      for (const auto& [value, count] : terms_) {
        const double b = value / (1 - saddle_ * value);
        slope += count * b;
        curvature += count * b * b;
        third += 2 * count * b * b * b;
      }
      width_ = 1 / std::sqrt(curvature);
      bend_ = std::clamp(third * width_ * width_ * width_ / 3, -kMostBend, kMostBend);
      if (std::abs(slope) * width_ <= 1e-3) return;
      (slope < 0 ? low : high) = saddle_;
      const double newton = saddle_ - slope / curvature;
      saddle_ = newton > low && newton < high ? newton : (low + high) / 2;
    }
  }

  /// Adds the terms at every `stride`-th multiple of `step`, from the first on, until they no longer matter.
  void add_terms(double step, int stride, double& sum) const {
    constexpr double kFarthest = 40;
    for (double u = step; u < kFarthest; u += stride * step) {
      const Complex delta(bend_ * width_ * (std::cosh(u) - 1), width_ * std::sinh(u));
      const Complex direction(bend_ * width_ * std::sinh(u), width_ * std::cosh(u));
      const Complex term = direction / ((1.0 + delta / saddle_) * divisor(tilted_, delta));
      if (!(std::abs(term) > kNegligible * std::abs(sum))) return;
      sum += term.imag();
    }
  }

  static constexpr double kMostBend = 0.5;
  std::span<const Tie> terms_;
  std::vector<Tie> tilted_;
  double pole_ = 0, saddle_ = 0, width_ = 0, bend_ = 0, log_bound_ = 0;
};

/// P(Σ Γ_j·value_j ≥ 0), computed from the smaller of the two tails. Where the quadrature did not converge it
/// is no less than the probability.
double at_least_zero(std::vector<Tie> terms) {
  double mean = 0;
  bool above = false, below = false;
  for (const auto& [value, count] : terms) {
    mean += count * value;
    above = above || value > 0;
    below = below || value < 0;
  }
  if (!below) return 1;
  if (!above) return 0;
  if (mean <= 0) return UpperTail(terms).probability().at_most;
  for (Tie& term : terms) term.value = -term.value;
  return 1 - UpperTail(terms).probability().at_least;
}

enum class Direction { proves_low, proves_high };

/// The means of the clusters, scaled to [0, 1], in ascending order.
class Sample {
 public:
  Sample(std::span<const ClusterSum> clusters, const ValueRange& range) : range_(range) {
    std::vector<double> values;
    values.reserve(clusters.size());
    for (const ClusterSum& c : clusters) {
      if (c.n > 0) values.push_back(std::clamp(scaled(c.sum / c.n), 0.0, 1.0));
    }
    is_number_ = std::ranges::none_of(values, [](double x) { return std::isnan(x); });
    if (!is_number_) return;
    std::ranges::sort(values);
    for (const double value : values) {
      if (!ties_.empty() && ties_.back().value == value) {
        ++ties_.back().count;
      } else {
        ties_.push_back({value, 1});
      }
    }
  }

  [[nodiscard]] std::string why_undecidable() const {
    if (!is_number_) return "the mean of one sequence is not a number";
    return ties_.empty() ? "there are no rows" : "";
  }
  [[nodiscard]] double scaled(double x) const { return (x - range_.low) / (range_.high - range_.low); }
  [[nodiscard]] double unscaled(double x) const { return range_.low + (range_.high - range_.low) * x; }

  /// The point that the bound adds lies at the end of the range that speaks against the proof.
  [[nodiscard]] double p_value(double tau, Direction direction) const {
    const bool low = direction == Direction::proves_low;
    if (tau < 0) return low ? 1 : 0;
    if (tau >= 1) return low ? 0 : 1;
    std::vector<Tie> terms;
    terms.reserve(ties_.size() + 1);
    terms.push_back({low ? 1 - tau : tau, 1});
    for (const auto& [value, count] : ties_) terms.push_back({low ? value - tau : tau - value, count});
    return at_least_zero(std::move(terms));
  }

  /// The limit at level alpha, on the side of tau that agrees with whether the proof at tau succeeds.
  [[nodiscard]] double limit(double tau, bool proven_at_tau, double alpha, Direction direction) const {
    const bool low = direction == Direction::proves_low;
    double proven = low ? 1 : 0;
    double unproven = low ? ties_.front().value : ties_.back().value;  // the p-value is 1 here
    if (proven == unproven) return proven;
    if (std::min(proven, unproven) < tau && tau < std::max(proven, unproven)) {
      (proven_at_tau ? proven : unproven) = tau;
    }
    const auto excess = [&](double at) { return std::log(std::max(p_value(at, direction), 1e-300) / alpha); };
    const auto close = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); };
    const double from = std::min(proven, unproven), to = std::max(proven, unproven);
    std::uintmax_t steps = kMostLimitSteps;
    const auto bracket =
        boost::math::tools::toms748_solve(excess, from, to, excess(from), excess(to), close, steps);
    return low ? bracket.second : bracket.first;
  }

 private:
  ValueRange range_;
  std::vector<Tie> ties_;
  bool is_number_ = true;
};

}  // namespace

MeanTest gaffke_mean(std::span<const ClusterSum> clusters, double tau, const ValueRange& range,
                     double alpha) {
  MeanTest test;
  test.method = "Gaffke's bound (validity conjectured)";
  test.approximate = true;
  test.clusters = clusters.size();
  for (const ClusterSum& c : clusters) test.n += static_cast<std::uint64_t>(c.n);
  std::vector<ClusterSum> once(clusters.begin(), clusters.end());
  count_once(once);
  test.estimate = ratio_mean(once);
  const Sample sample(once, range);
  test.undecidable = sample.why_undecidable();
  if (!test.undecidable.empty()) return test;
  const double scaled = sample.scaled(tau);
  test.p_low = sample.p_value(scaled, Direction::proves_low);
  test.p_high = sample.p_value(scaled, Direction::proves_high);
  test.upper = sample.unscaled(sample.limit(scaled, test.p_low <= alpha, alpha, Direction::proves_low));
  test.lower = sample.unscaled(sample.limit(scaled, test.p_high <= alpha, alpha, Direction::proves_high));
  if (scaled > 0 && scaled < 1) {
    test.details["least_clusters"] = static_cast<double>(zero_event_units(scaled, alpha));
  }
  return test;
}

double gaffke_p_value(std::span<const ClusterSum> clusters, double tau, const ValueRange& range, bool above) {
  const Sample sample(clusters, range);
  if (!sample.why_undecidable().empty()) return 1;
  return sample.p_value(sample.scaled(tau), above ? Direction::proves_high : Direction::proves_low);
}

}  // namespace driftgate::stages
