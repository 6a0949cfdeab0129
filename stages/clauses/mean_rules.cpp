#include "stages/clauses/mean_rules.hpp"

#include <algorithm>
#include <cmath>

namespace driftgate::stages {
namespace {

constexpr const char* kNoRange =
    "its values have no end that is known beforehand, so no exact method can decide their mean: the contract "
    "needs a clip or confidence.means: approximate";
constexpr const char* kNoLength =
    "a token-weighted mean is decided exactly only where the contract states assumptions.max_tokens, the "
    "most "
    "tokens that a sequence can have";
/// How many times the sequences at hand are imagined over, at most, in search of a number that would do.
constexpr std::size_t kMostTimes = 64;
constexpr std::size_t kMostClusters = 200'000;
constexpr double kGrowth = 1.1;
/// A clip of this many times the limit leaves room for scatter and still takes few sequences to prove.
constexpr double kUsualClip = 12.5;

std::uint64_t units(std::span<const ClusterSum> clusters) {
  double n = 0;
  for (const ClusterSum& c : clusters) n += c.n;
  return static_cast<std::uint64_t>(n);
}

MeanTest undecided(std::span<const ClusterSum> clusters, std::string why) {
  MeanTest test;
  test.method = "none: no exact method";
  test.clusters = clusters.size();
  test.n = units(clusters);
  test.estimate = ratio_mean(clusters);
  test.undecidable = std::move(why);
  return test;
}

std::optional<ValueRange> exact_range(const MeanQuestion& question, const MeanRules& rules) {
  if (!question.range || (!question.once && rules.max_tokens == 0)) return std::nullopt;
  return ValueRange{question.range->first, question.range->second,
                    question.once ? 1.0 : static_cast<double>(rules.max_tokens)};
}

MeanTest exactly(std::span<const ClusterSum> clusters, const MeanQuestion& question, const MeanRules& rules,
                 double alpha, std::uint64_t seed) {
  if (const auto range = exact_range(question, rules))
    return betting_mean(clusters, question.tau, *range, alpha, seed);
  return undecided(clusters, question.range ? kNoLength : kNoRange);
}

/// Whether so few clusters have an event that resampling them says nothing of how rare events are.
bool few_events(std::span<const ClusterSum> clusters, const MeanQuestion& question) {
  if (!question.counts_events || !question.range) return false;
  std::size_t above_low = 0;
  std::size_t below_high = 0;
  for (const ClusterSum& c : clusters) {
    above_low += static_cast<std::size_t>(c.sum > question.range->first * c.n);
    below_high += static_cast<std::size_t>(c.sum < question.range->second * c.n);
  }
  return std::min(above_low, below_high) < kLeastActiveClusters;
}

/// Whether there are too few clusters, or too few with an event, for resampling to say anything.
bool too_few_to_resample(std::span<const ClusterSum> clusters, const MeanQuestion& question) {
  return clusters.size() < kLeastResampledClusters || few_events(clusters, question);
}

MeanTest approximately(std::span<const ClusterSum> clusters, const MeanQuestion& question,
                       const MeanRules& rules, double alpha, std::uint64_t seed) {
  const auto range = exact_range(question, rules);
  if (!range) return bootstrap_t(clusters, question.tau, alpha, seed);
  const MeanTest exact = betting_mean(clusters, question.tau, *range, alpha, seed);
  if (!question.once && too_few_to_resample(clusters, question)) return exact;
  MeanTest test = question.once ? gaffke_mean(clusters, question.tau, *range, alpha)
                                : bootstrap_t(clusters, question.tau, alpha, seed);
  if (exact.lower) test.details["exact_lower"] = *exact.lower;
  if (exact.upper) test.details["exact_upper"] = *exact.upper;
  return test;
}

/// Whether the approximate method proves the limit, of clusters whose range is known.
bool approximately_proven(std::span<const ClusterSum> clusters, const MeanQuestion& question,
                          const ValueRange& range, bool proves_low, double alpha, std::uint64_t seed) {
  if (question.once) return gaffke_p_value(clusters, question.tau, range, !proves_low) <= alpha;
  if (too_few_to_resample(clusters, question)) return false;
  const MeanTest resampled = bootstrap_t(clusters, question.tau, alpha, seed);
  if (!resampled.undecidable.empty()) return false;
  return (proves_low ? resampled.p_low : resampled.p_high) <= alpha;
}

/// The least number of clusters like these, in steps of a tenth, that betting would take.
std::optional<std::uint64_t> clusters_that_would_do(std::span<const ClusterSum> clusters,
                                                    const ValueRange& range, double tau, bool proves_low,
                                                    double alpha, std::uint64_t seed) {
  std::vector<ClusterSum> more(clusters.begin(), clusters.end());
  const auto most = static_cast<double>(std::min(kMostTimes * clusters.size(), kMostClusters));
  for (double n = std::ceil(static_cast<double>(clusters.size()) * kGrowth); n <= most;
       n = std::ceil(n * kGrowth)) {
    while (static_cast<double>(more.size()) < n) more.push_back(clusters[more.size() % clusters.size()]);
    if (betting_p_value(more, tau, range, !proves_low, seed) <= alpha) return more.size();
  }
  return std::nullopt;
}

/// The usual clip, if betting proves the limit of these clusters with it.
std::optional<double> clip_that_would_do(std::vector<ClusterSum> clusters, const ValueRange& range,
                                         double tau, double alpha, std::uint64_t seed) {
  const double clip = range.low + kUsualClip * (tau - range.low);
  if (clip >= range.high) return std::nullopt;
  for (ClusterSum& c : clusters) c.sum = std::min(c.sum, clip);
  if (betting_p_value(clusters, tau, {range.low, clip, 1}, false, seed) > alpha) return std::nullopt;
  return clip;
}

}  // namespace

MeanRules mean_rules(const schema::Contract& contract, const schema::Clause& clause) {
  return {contract.confidence.means, clause.clip, clause.over, contract.assumptions.max_tokens};
}

MeanTest test_mean(std::vector<ClusterSum> clusters, const MeanQuestion& question, const MeanRules& rules,
                   double alpha, std::uint64_t seed) {
  const std::uint64_t n = units(clusters);
  if (question.once) count_once(clusters);
  MeanTest test = rules.means == schema::Means::exact ? exactly(clusters, question, rules, alpha, seed)
                                                      : approximately(clusters, question, rules, alpha, seed);
  test.n = n;
  return test;
}

std::optional<std::pair<double, double>> clipped_range(std::optional<std::pair<double, double>> range,
                                                       double least, std::optional<double> clip) {
  if (!clip) return range;
  if (range) return std::pair(range->first, std::min(range->second, *clip));
  if (!std::isfinite(least)) return std::nullopt;
  return std::pair(least, *clip);
}

std::optional<MeanAdvice> advise_mean(std::vector<ClusterSum> clusters, const MeanQuestion& question,
                                      const MeanRules& rules, bool proves_low, double alpha,
                                      std::uint64_t seed) {
  if (question.once) count_once(clusters);
  const auto range = exact_range(question, rules);
  if (!range) return std::nullopt;
  MeanAdvice advice;
  advice.approximate = approximately_proven(clusters, question, *range, proves_low, alpha, seed);
  if (question.once && !rules.clip && proves_low)
    advice.clip = clip_that_would_do(clusters, *range, question.tau, alpha, seed);
  if (!advice.approximate && !advice.clip) return std::nullopt;
  advice.clusters = clusters_that_would_do(clusters, *range, question.tau, proves_low, alpha, seed);
  return advice;
}

}  // namespace driftgate::stages
