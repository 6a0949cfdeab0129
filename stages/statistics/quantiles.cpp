#include "stages/statistics/quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSmallest = 1e-3;  ///< below this, in the unit of the values, all are one bin
constexpr double kLargest = 1e9;
const double kLogWidth = std::log(1.01);
/// The sample size at which the boundary is tightest.
constexpr double kPlanned = 1'000;

std::uint64_t rank_of(double p, std::uint64_t n) {
  const auto rank = static_cast<std::uint64_t>(std::ceil(p * static_cast<double>(n) - 1e-9));
  return std::clamp<std::uint64_t>(rank, 1, n);
}

/// Is a count of `s` among n still plausible for rate p at level alpha?
struct Boundary {
  double p, n, inflation, a, b, limit;

  Boundary(double rate, std::uint64_t count, double alpha, double the_inflation)
      : p(rate), n(static_cast<double>(count) / the_inflation), inflation(the_inflation) {
    const double level = std::log(1 / alpha);
    const double weight = kPlanned / (2 * level + std::log1p(2 * level));
    a = p * weight;
    b = (1 - p) * weight;
    limit = level + log_beta(a, b);
  }
  [[nodiscard]] bool plausible(std::uint64_t count) const {
    const auto s = static_cast<double>(count) / inflation;
    return log_beta(a + s, b + n - s) - s * std::log(p) - (n - s) * std::log1p(-p) < limit;
  }
};

}  // namespace

QuantileLimits order_statistic_limits(std::span<const double> sorted, double p, double alpha) {
  const std::uint64_t n = sorted.size();
  QuantileLimits limits{std::numeric_limits<double>::quiet_NaN(), -kInfinity, kInfinity};
  if (n == 0) return limits;
  limits.estimate = sorted[rank_of(p, n) - 1];
  // The largest rank l with P(Bin(n, p) ≤ l − 1) ≤ alpha, the least u with P(Bin(n, p) ≥ u) ≤ alpha.
  std::uint64_t low = 0;
  std::uint64_t high = n + 1;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (binomial_at_most(middle - 1, n, p) <= alpha ? low : high) = middle;
  }
  if (low > 0) limits.lower = sorted[low - 1];
  low = 0;
  high = n + 1;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (binomial_at_least(middle, n, p) <= alpha ? high : low) = middle;
  }
  if (high <= n) limits.upper = sorted[high - 1];
  return limits;
}

void QuantileSequence::add(double value) {
  if (!std::isfinite(value)) return;
  ++bins_[bin_of(value)];
  ++count_;
}

std::int32_t QuantileSequence::bin_of(double value) {
  return static_cast<std::int32_t>(std::floor(std::log(std::clamp(value, kSmallest, kLargest)) / kLogWidth));
}

std::int32_t QuantileSequence::bin_of_quantile(double p) const {
  return count_ == 0 ? 0 : bin_of_rank(rank_of(p, count_));
}

QuantileSequence::Place QuantileSequence::place_of_quantile(double p) const {
  const double below = p * static_cast<double>(count_);
  double seen = 0;
  Place place;
  for (const auto& [bin, count] : bins_) {
    const auto here = static_cast<double>(count);
    seen += here;
    place = {bin, std::max(0.0, seen - below) / here};
    if (seen >= below) break;
  }
  return place;
}

std::int32_t QuantileSequence::bin_of_rank(std::uint64_t rank) const {
  std::uint64_t seen = 0;
  for (const auto& [bin, count] : bins_) {
    seen += count;
    if (seen >= rank) return bin;
  }
  return bins_.rbegin()->first;
}

QuantileLimits QuantileSequence::limits(double p, double alpha, double inflation) const {
  QuantileLimits limits{std::numeric_limits<double>::quiet_NaN(), 0, kInfinity};
  if (count_ == 0) return limits;
  const std::uint64_t middle = rank_of(p, count_);
  limits.estimate = std::exp((bin_of_rank(middle) + 0.5) * kLogWidth);
  const Boundary boundary(p, count_, alpha, inflation);
  // Plausible counts are an interval around the middle, whose own count is always plausible.
  std::uint64_t no = 0;
  std::uint64_t yes = middle;
  if (boundary.plausible(0)) yes = 0;
  while (yes > no + 1) {
    const std::uint64_t probe = no + (yes - no) / 2;
    (boundary.plausible(probe) ? yes : no) = probe;
  }
  if (yes > 0) limits.lower = std::exp(bin_of_rank(yes) * kLogWidth);
  yes = middle;
  no = count_ + 1;
  if (boundary.plausible(count_)) yes = count_;
  while (no > yes + 1) {
    const std::uint64_t probe = yes + (no - yes) / 2;
    (boundary.plausible(probe) ? yes : no) = probe;
  }
  if (yes < count_) limits.upper = std::exp((bin_of_rank(yes + 1) + 1) * kLogWidth);
  return limits;
}

nlohmann::json QuantileSequence::to_json() const {
  nlohmann::json bins = nlohmann::json::array();
  for (const auto& [bin, count] : bins_) bins.push_back({bin, count});
  return bins;
}

QuantileSequence QuantileSequence::from_json(const nlohmann::json& json) {
  QuantileSequence sequence;
  for (const auto& entry : json) {
    const auto count = entry.at(1).get<std::uint64_t>();
    sequence.bins_[entry.at(0).get<std::int32_t>()] = count;
    sequence.count_ += count;
  }
  return sequence;
}

}  // namespace driftgate::stages
