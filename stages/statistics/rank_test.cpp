#include "stages/statistics/rank_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftgate::stages {
namespace {

/// Equal values of the pool: their mid-rank over the size of the pool, and how many there are.
struct Level {
  double score = 0, count = 0;
};

/// ln of the bound of P(mean of `draws` scores ≥ mean), draws from the levels with equal chance.
double log_tail(const std::vector<Level>& levels, double draws, double mean) {
  double pool = 0;
  for (const Level& level : levels) pool += level.count;
  // ln E exp(θ(c − mean)) is convex in θ and any θ ≥ 0 gives a bound, so that the search need not be exact.
  const auto moment = [&](double theta, double& slope) {
    double largest = -HUGE_VAL;
    for (const Level& level : levels) largest = std::max(largest, theta * (level.score - mean));
    double sum = 0;
    double weighted = 0;
    for (const Level& level : levels) {
      const double weight = level.count * std::exp(theta * (level.score - mean) - largest);
      sum += weight;
      weighted += weight * (level.score - mean);
    }
    slope = weighted / sum;
    return largest + std::log(sum / pool);
  };
  double slope = 0;
  double least = moment(0, slope);
  if (slope >= 0) return 0;
  double low = 0;
  double high = 1;
  constexpr double kSteepest = 1e6;
  while (high < kSteepest) {
    least = std::min(least, moment(high, slope));
    if (slope >= 0) break;
    low = high;
    high *= 2;
  }
  constexpr int kHalvings = 30;
  for (int i = 0; i < kHalvings && slope != 0; ++i) {
    const double middle = (low + high) / 2;
    least = std::min(least, moment(middle, slope));
    (slope < 0 ? low : high) = middle;
  }
  return std::min(0.0, draws * least);
}

}  // namespace

std::vector<double> mid_ranks(std::span<const double> values) {
  std::vector<std::size_t> order;
  order.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size(), std::numeric_limits<double>::quiet_NaN());
  const auto pool = static_cast<double>(order.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = (static_cast<double>(begin + end) + 1) / 2 / pool;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = rank;
    begin = end;
  }
  return ranks;
}

RankTest ranks_above(std::span<const double> inside, std::span<const double> outside) {
  RankTest test;
  if (inside.empty() || outside.empty()) return test;
  std::vector<double> values(inside.begin(), inside.end());
  values.insert(values.end(), outside.begin(), outside.end());
  std::vector<double> ranks = mid_ranks(values);
  const auto m = static_cast<double>(inside.size());
  const auto rest = static_cast<double>(outside.size());
  const double pool = m + rest;
  double sum = 0;
  for (std::size_t i = 0; i < inside.size(); ++i) sum += ranks[i];
  double other = 0;
  for (std::size_t i = inside.size(); i < ranks.size(); ++i) other += ranks[i];
  test.superiority = (sum * pool - m * (m + 1) / 2) / (m * rest);
  std::ranges::sort(ranks);
  std::vector<Level> levels;
  for (const double rank : ranks) {
    if (levels.empty() || rank > levels.back().score) levels.push_back({rank, 0});
    levels.back().count += 1;
  }
  if (m <= rest) {
    test.p_value = std::exp(log_tail(levels, m, sum / m));
    return test;
  }
  // The sum inside is large exactly where the sum outside is small.
  for (Level& level : levels) level.score = -level.score;
  test.p_value = std::exp(log_tail(levels, rest, -other / rest));
  return test;
}

}  // namespace driftgate::stages
