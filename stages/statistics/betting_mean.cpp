#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

/// Bets as shares of the cap; the last is the cap itself.
constexpr std::array<double, 13> kShares{0,        1.0 / 1024, 1.0 / 512, 1.0 / 256, 1.0 / 128,
                                         1.0 / 64, 1.0 / 32,   1.0 / 16,  1.0 / 8,   1.0 / 4,
                                         1.0 / 2,  3.0 / 4,    1.0};

enum class Direction { proves_low, proves_high };

struct LogWealth {
  double best = 0;  ///< the largest on the way: its inverse is a p-value (Ville)
  double last = 0;  ///< at the end: an e-value
};

/// The capital process against the boundary mean `tau` of values in [0,1]. The next bet is the share that
/// would have earned most so far.
LogWealth log_wealth(std::span<const ClusterSum> ordered, double n_max, double tau, double cap,
                     Direction direction) {
  const bool low = direction == Direction::proves_low;
  const double ruin = low ? 1 - tau : tau;  // the largest loss of one unit of stake
  const double sign = low ? -1.0 : 1.0;
  if (ruin <= 0) {  // no value can lie beyond the boundary: one on the other side proves
    const bool certain = !low && std::ranges::any_of(ordered, [](const ClusterSum& c) { return c.sum > 0; });
    const double sure = std::numeric_limits<double>::infinity();
    return certain || low ? LogWealth{sure, sure} : LogWealth{};
  }
  std::array<double, kShares.size()> score{};
  const auto earn = [&](double gain) {
    for (std::size_t j = 1; j < kShares.size(); ++j) score[j] += std::log1p(kShares[j] * cap / ruin * gain);
  };
  // One imagined observation sets the first bet: the best outcome when proving low, so that data
  // without any event are bet on with the whole cap from the start; a mixed one when proving high.
  earn(tau);
  if (!low) earn(-tau / 2);
  LogWealth wealth;
  for (const ClusterSum& c : ordered) {
    const auto bet = static_cast<std::size_t>(std::ranges::max_element(score) - score.begin());
    const double gain = sign * (c.sum - tau * c.n) / n_max;
    wealth.last += std::log1p(kShares[bet] * cap / ruin * gain);
    wealth.best = std::max(wealth.best, wealth.last);
    earn(gain);
  }
  return wealth;
}

struct Sample {
  std::vector<ClusterSum> ordered;  ///< values scaled to [0,1], in random order
  double n_max = 0;
  double cap = 0;

  [[nodiscard]] double p_value(double tau, Direction direction) const {
    return std::exp(-log_wealth(ordered, n_max, std::clamp(tau, 0.0, 1.0), cap, direction).best);
  }

  /// The limit in (from, to) where the proof begins to fail; `from` is proven or the estimate's side.
  [[nodiscard]] double limit(double unproven, double proven, double alpha, Direction direction) const {
    const int steps = ordered.size() > 20'000 ? 12 : 24;
    for (int i = 0; i < steps; ++i) {
      const double middle = (unproven + proven) / 2;
      (p_value(middle, direction) <= alpha ? proven : unproven) = middle;
    }
    return proven;
  }
};

/// Why the clusters are not what `range` says, or empty.
std::string why_out_of_range(std::span<const ClusterSum> clusters, const ValueRange& range) {
  double longest = 0;
  for (const ClusterSum& c : clusters) longest = std::max(longest, c.n);
  if (longest <= 0) return "there are no rows";
  if (longest <= range.most) return {};
  return fmt::format("one sequence has {:.0f} units and the limit rests on at most {:.0f}", longest, range.most);
}

Sample make_sample(std::span<const ClusterSum> clusters, const ValueRange& range, std::uint64_t seed,
                   double cap) {
  Sample sample{{clusters.begin(), clusters.end()}, range.most, cap};
  for (ClusterSum& c : sample.ordered) {
    c.sum = std::clamp((c.sum - range.low * c.n) / (range.high - range.low), 0.0, c.n);
  }
  Random random(seed);
  random.shuffle(std::span<ClusterSum>(sample.ordered));
  return sample;
}

}  // namespace

MeanTest betting_mean(std::span<const ClusterSum> clusters, double tau, const ValueRange& range, double alpha,
                      std::uint64_t seed, double cap) {
  MeanTest test;
  test.method = "betting, cap 0.99";
  if (cap < 0.99) test.method = "betting, cap 0.5";
  test.clusters = clusters.size();
  for (const ClusterSum& c : clusters) test.n += static_cast<std::uint64_t>(c.n);
  test.estimate = ratio_mean(clusters);
  test.undecidable = why_out_of_range(clusters, range);
  if (!test.undecidable.empty()) return test;
  const Sample sample = make_sample(clusters, range, seed, cap);
  const double width = range.high - range.low;
  const double scaled = (tau - range.low) / width;
  const double estimate = std::clamp((test.estimate - range.low) / width, 0.0, 1.0);
  test.p_low = scaled >= 1 ? 0 : scaled < 0 ? 1 : sample.p_value(scaled, Direction::proves_low);
  test.p_high = scaled < 0 ? 0 : scaled >= 1 ? 1 : sample.p_value(scaled, Direction::proves_high);
  // The limits are searched on the side of τ that agrees with the p-values.
  const bool is_low = test.p_low <= alpha;
  const bool is_high = test.p_high <= alpha;
  const double inside = std::clamp(scaled, 0.0, 1.0);
  const double upper = is_low ? sample.limit(std::min(estimate, inside), inside, alpha, Direction::proves_low)
                              : sample.limit(std::max(estimate, inside), 1, alpha, Direction::proves_low);
  const double lower = is_high
                           ? sample.limit(std::max(estimate, inside), inside, alpha, Direction::proves_high)
                           : sample.limit(std::min(estimate, inside), 0, alpha, Direction::proves_high);
  test.upper = range.low + width * upper;
  test.lower = range.low + width * lower;
  if (scaled > 0 && scaled < 1) {
    test.details["least_clusters"] = static_cast<double>(betting_units_without_event(scaled, alpha, cap));
  }
  return test;
}

double betting_p_value(std::span<const ClusterSum> clusters, double tau, const ValueRange& range, bool above,
                       std::uint64_t seed, double cap) {
  if (!why_out_of_range(clusters, range).empty()) return 1;
  const double scaled = (tau - range.low) / (range.high - range.low);
  if (scaled < 0) return above ? 0 : 1;
  if (scaled >= 1) return above ? 1 : 0;
  const Sample sample = make_sample(clusters, range, seed, cap);
  return sample.p_value(scaled, above ? Direction::proves_high : Direction::proves_low);
}

double betting_e_value(std::span<const ClusterSum> clusters, double tau, const ValueRange& range, bool above,
                       std::uint64_t seed, double cap) {
  if (!why_out_of_range(clusters, range).empty()) return 1;
  const Sample sample = make_sample(clusters, range, seed, cap);
  const double scaled = (tau - range.low) / (range.high - range.low);
  const double beyond = std::numeric_limits<double>::infinity();
  if (scaled < 0) return above ? beyond : 1;
  if (scaled > 1) return above ? 1 : beyond;
  const Direction direction = above ? Direction::proves_high : Direction::proves_low;
  // No value can lie on the far side of the end of the range.
  if (above ? scaled >= 1 : scaled <= 0) return 1;
  // At the other end any value on the far side proves; without one there is no evidence.
  if (!above && scaled >= 1) {
    const bool any = std::ranges::any_of(sample.ordered, [](const ClusterSum& c) { return c.sum < c.n; });
    return any ? beyond : 1;
  }
  return std::exp(log_wealth(sample.ordered, sample.n_max, scaled, cap, direction).last);
}

std::uint64_t betting_units_without_event(double max_fraction, double alpha, double cap) {
  if (max_fraction <= 0) return std::numeric_limits<std::uint64_t>::max();
  if (max_fraction >= 1) return 1;
  return static_cast<std::uint64_t>(
      std::ceil(std::log(1 / alpha) / std::log1p(cap * max_fraction / (1 - max_fraction))));
}

MeanTest exceedance(std::span<const ClusterSum> clusters, double max_fraction, double alpha,
                    std::uint64_t seed) {
  const bool single = std::ranges::all_of(clusters, [](const ClusterSum& c) { return c.n == 1; });
  if (!single || clusters.empty()) {
    std::vector<ClusterSum> shares(clusters.begin(), clusters.end());
    count_once(shares);
    MeanTest by_share = betting_mean(shares, max_fraction, {}, alpha, seed);
    by_share.n = 0;
    for (const ClusterSum& c : clusters) by_share.n += static_cast<std::uint64_t>(c.n);
    return by_share;
  }
  MeanTest test;
  test.method = "exact binomial";
  test.n = test.clusters = clusters.size();
  double beyond = 0;
  for (const ClusterSum& c : clusters) beyond += c.sum;
  const auto k = static_cast<std::uint64_t>(beyond);
  test.estimate = beyond / static_cast<double>(test.n);
  test.lower = clopper_pearson_lower(k, test.n, alpha);
  test.upper = clopper_pearson_upper(k, test.n, alpha);
  test.p_low = binomial_at_most(k, test.n, max_fraction);
  test.p_high = binomial_at_least(k, test.n, max_fraction);
  test.details["least_clusters"] = static_cast<double>(zero_event_units(max_fraction, alpha));
  return test;
}

}  // namespace driftgate::stages
