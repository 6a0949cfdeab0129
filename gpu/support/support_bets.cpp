#include "gpu/support/support_bets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace driftgate::gpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kPartColumns = 4'096;
/// Against what has all of q but this nothing is bet.
constexpr double kLeastRest = 1e-9;

/// Columns are sorted by −log q into bins of an eighth of an octave; the last one has all that is beyond.
constexpr double kBinsPerNat = 8 / 0.69314718055994531;
constexpr std::size_t kBins = 512;

constexpr double kFirstStake = 0.5, kPreferredStake = 0.95;
constexpr double kFirstOdds = 0.01;

/// The vocabulary is halved into ranges of ids, down to this many of equal width; a bet on them begins again
/// with this probability a row.
constexpr std::size_t kFinestRanges = 256, kRanges = 2 * kFinestRanges;
constexpr double kRangesChange = 1e-4, kKeptOfRanges = 0.5;

/// Writes logits as doubles and returns the largest; NaN if one is NaN or +infinity.
double widened(const LogitRow& row, std::size_t first, std::size_t count, double temperature, double* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = row.at(first + i);
  if (temperature != 1) std::for_each(to, to + count, [temperature](double& x) { x /= temperature; });
  double top = -kInfinity;
  bool odd = false;
  for (std::size_t i = 0; i < count; ++i) {
    odd |= !(to[i] < kInfinity);
    top = to[i] > top ? to[i] : top;
  }
  return odd ? std::numeric_limits<double>::quiet_NaN() : top;
}

/// In eight partial sums, so that additions need not wait for each other.
double sum_of(const double* values, std::size_t count) {
  double lanes[kBetLanes]{};
  for (std::size_t i = 0; i < count; ++i) lanes[i % kBetLanes] += values[i];
  return std::accumulate(lanes, lanes + kBetLanes, 0.0);
}

/// The bin of tokens whose q is e^(−below) of the largest.
std::size_t bin_of(double below) {
  return static_cast<std::size_t>(std::min(below * kBinsPerNat, kBins - 1.0));
}

/// The bin of the last token that each filter keeps, from the mass of q and the number of tokens up to each
/// bin. Bins are kept whole, so that rounding does not leave a token out that the sampler kept.
std::array<std::size_t, kFilters> last_bins(const std::array<double, kBins>& q,
                                            const std::array<std::uint32_t, kBins>& tokens) {
  std::array<std::size_t, kFilters> out{};
  std::size_t i = 0;
  const auto first = [](const auto& values, auto least) {
    const auto found = std::ranges::find_if(values, [least](auto value) { return value >= least; });
    return std::min<std::size_t>(static_cast<std::size_t>(found - values.begin()), kBins - 1);
  };
  for (const double mass : kFilterTopP) out[i++] = first(q, mass);
  for (const std::uint32_t count : kFilterTopK) out[i++] = first(tokens, count);
  for (const double share : kFilterMinP) out[i++] = bin_of(-std::log(share));
  return out;
}

}  // namespace

struct SupportBets::Part {
  std::size_t first = 0, count = 0;  ///< columns
  double top_train = 0, top_inf = 0, sum_train = 0, sum_inf = 0;
  bool unequal = false;  ///< a token is masked in one kernel alone
  BetSums sums{};
  std::array<double, kBins> q{}, p{};
  std::array<std::uint32_t, kBins> tokens{};
};

SupportBets::SupportBets(std::uint32_t vocabulary, double temperature, std::uint32_t threads,
                         const BetsKernel& kernel)
    : kernel_(kernel),
      vocabulary_(vocabulary),
      temperature_(temperature),
      pool_(std::clamp<std::uint32_t>(threads, 1, (vocabulary + kPartColumns - 1) / kPartColumns)),
      parts_((vocabulary + kPartColumns - 1) / kPartColumns) {
  // Whole vectors, of which the columns beyond the vocabulary have no probability.
  const std::size_t padded = (std::size_t{vocabulary} + kBetLanes - 1) / kBetLanes * kBetLanes;
  stakes_.fill(kFirstStake);
  // As in a heap: range 1 is the vocabulary, and the halves of range i are 2i and 2i + 1. What 0 has is not
  // bet.
  ranges_.assign(kRanges, (1 - kKeptOfRanges) / (kRanges - 2));
  ranges_[0] = kKeptOfRanges, ranges_[1] = 0;
  range_q_.resize(kRanges), range_p_.resize(kRanges);
  z_.resize(padded), y_.resize(padded), bins_.resize(padded), odds_.resize(padded, kFirstOdds);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    parts_[part].first = part * kPartColumns;
    parts_[part].count = std::min<std::size_t>(kPartColumns, vocabulary - part * kPartColumns);
  }
}

SupportBets::~SupportBets() = default;

void SupportBets::each_part(const std::function<void(Part&)>& step) {
  pool_.run([&](std::size_t thread) {
    for (std::size_t part = thread; part < parts_.size(); part += pool_.size()) step(parts_[part]);
  });
}

void SupportBets::read(const SupportRow& row, Part& part) {
  part.top_train = widened(row.train, part.first, part.count, temperature_, &z_[part.first]);
  part.top_inf = widened(row.inf, part.first, part.count, temperature_, &y_[part.first]);
  part.unequal = false;
  for (std::size_t i = part.first; i < part.first + part.count; ++i)
    part.unequal |= (z_[i] == -kInfinity) != (y_[i] == -kInfinity);
}

BetColumns SupportBets::columns_of(const Part& part) {
  const std::size_t padded = (part.count + kBetLanes - 1) / kBetLanes * kBetLanes;
  return {&z_[part.first], &y_[part.first], &odds_[part.first], padded};
}

void SupportBets::weigh(Part& part) {
  const std::size_t end = part.first + part.count;
  for (std::size_t i = part.first; i < end; ++i)
    bins_[i] = static_cast<std::uint16_t>(bin_of(top_inf_ - y_[i]));
  const BetColumns columns = columns_of(part);
  for (std::size_t i = end; i < part.first + columns.count; ++i) z_[i] = y_[i] = -kInfinity;
  kernel_.weigh(columns, top_train_, top_inf_);
  part.sum_train = sum_of(&z_[part.first], part.count);
  part.sum_inf = sum_of(&y_[part.first], part.count);
}

void SupportBets::bet(Part& part) {
  const double to_p = 1 / sum_train_, to_q = 1 / sum_inf_;
  kernel_.bet(columns_of(part), to_p, to_q, part.sums);
  part.q.fill(0), part.p.fill(0), part.tokens.fill(0);
  for (std::size_t i = part.first; i < part.first + part.count; ++i) {
    const std::size_t bin = bins_[i];
    part.q[bin] += y_[i] * to_q;
    part.p[bin] += z_[i] * to_p;
    part.tokens[bin] += 1;
  }
}

void SupportBets::add(const SupportRow& row, SupportSums& out) {
  const auto token = static_cast<std::size_t>(row.token);
  each_part([&](Part& part) { read(row, part); });
  top_train_ = top_inf_ = -kInfinity;
  for (const Part& part : parts_) {
    if (part.unequal || std::isnan(part.top_train) || std::isnan(part.top_inf)) return;
    top_train_ = std::max(top_train_, part.top_train);
    top_inf_ = std::max(top_inf_, part.top_inf);
  }
  if (!std::isfinite(top_train_) || !std::isfinite(top_inf_) || y_[token] == -kInfinity) return;
  each_part([this](Part& part) { weigh(part); });
  sum_train_ = sum_inf_ = 0;
  for (const Part& part : parts_) {
    sum_train_ += part.sum_train;
    sum_inf_ += part.sum_inf;
  }
  const double odds = odds_[token];
  each_part([this](Part& part) { bet(part); });
  odds_[token] = 0;
  settle(token, odds, out);
}

/// `factor`: what a bet on the filter turns a stake into. Herbster & Warmuth, "Tracking the best expert",
/// 1998.
void SupportBets::settle_filter(std::size_t bet, double factor, SupportSums& out) {
  double& stake = stakes_[bet];
  const double change = kSwitches[bet / kFilters], wealth = 1 - stake + stake * factor;
  out.filters[bet] += std::log(wealth);
  const double kept = stake * factor / wealth;
  stake = (1 - change) * kept + change * (1 - kept);
}

void SupportBets::settle_ranges(std::size_t token, SupportSums& out) {
  const std::size_t width = (vocabulary_ + kFinestRanges - 1) / kFinestRanges;
  std::ranges::fill(range_q_, 0);
  std::ranges::fill(range_p_, 0);
  for (std::size_t first = 0, range = kFinestRanges; first < vocabulary_; first += width, ++range) {
    const std::size_t count = std::min<std::size_t>(width, vocabulary_ - first);
    range_q_[range] = sum_of(&y_[first], count) / sum_inf_;
    range_p_[range] = sum_of(&z_[first], count) / sum_train_;
  }
  for (std::size_t range = kFinestRanges; range-- > 1;) {
    range_q_[range] = range_q_[2 * range] + range_q_[2 * range + 1];
    range_p_[range] = range_p_[2 * range] + range_p_[2 * range + 1];
  }
  double wealth = ranges_[0], p = 0, bet = 0;
  for (std::size_t range = 2; range < kRanges; ++range) {
    bet += ranges_[range];
    p += ranges_[range] * range_p_[range];
  }
  std::size_t of_token = token / width + kFinestRanges;
  while (of_token > 1 && 1 - range_q_[of_token] > kLeastRest) {
    ranges_[of_token] = 0;
    of_token /= 2;
  }
  for (std::size_t range = 2; range < kRanges; ++range) {
    const double rest = 1 - range_q_[range];
    if (rest > kLeastRest) ranges_[range] /= rest;
    wealth += ranges_[range];
  }
  out.ranges += std::log(wealth);
  out.ranges_p += p / bet;
  for (std::size_t range = 0; range < kRanges; ++range) {
    const double first = range == 0 ? kKeptOfRanges : range == 1 ? 0 : (1 - kKeptOfRanges) / (kRanges - 2);
    ranges_[range] = (1 - kRangesChange) * ranges_[range] / wealth + kRangesChange * first;
  }
}

void SupportBets::settle(std::size_t token, double odds, SupportSums& out) {
  Part all;
  for (const Part& part : parts_) {
    for (std::size_t i = 0; i < kPreferenceBets; ++i) all.sums.preference[i] += part.sums.preference[i];
    all.sums.p_lost += part.sums.p_lost;
    all.sums.taken_q += part.sums.taken_q;
    all.sums.untaken_p += part.sums.untaken_p;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      all.q[bin] += part.q[bin];
      all.p[bin] += part.p[bin];
      all.tokens[bin] += part.tokens[bin];
    }
  }
  std::partial_sum(all.q.begin(), all.q.end(), all.q.begin());
  std::partial_sum(all.p.begin(), all.p.end(), all.p.begin());
  std::partial_sum(all.tokens.begin(), all.tokens.end(), all.tokens.begin());
  ++out.rows;
  out.p_lost += all.sums.p_lost;
  const double ratio = (z_[token] / sum_train_) / std::max(y_[token] / sum_inf_, kLeastQ);
  double lambda = kLeastLambda;
  for (std::size_t i = 0; i < kRatioBets; ++i, lambda *= 4)
    out.preference[i] += lambda * (1 - ratio) - std::log(all.sums.preference[i]);
  for (std::size_t i = 0; i < kPreferred.size(); ++i) {
    const double kept = all.sums.preference[kRatioBets + i];
    const double factor = kept < kLeastRest ? 1 : ratio <= kPreferred[i] ? 1 / kept : 0;
    out.preference[kRatioBets + i] += std::log(1 - kPreferredStake + kPreferredStake * factor);
  }
  const auto last = last_bins(all.q, all.tokens);
  for (std::size_t i = 0; i < kFilters; ++i) {
    const double factor = bins_[token] <= last[i] ? 1 / all.q[last[i]] : 0;
    for (std::size_t bet = i; bet < kFilterBets; bet += kFilters) settle_filter(bet, factor, out);
    out.filters_p[i] += std::max(0.0, 1 - all.p[last[i]]);
  }
  out.untaken -= std::log((1 + odds) * all.sums.taken_q);
  out.untaken_p += all.sums.untaken_p;
  settle_ranges(token, out);
}

}  // namespace driftgate::gpu
