#include "stages/statistics/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

constexpr std::size_t kLeastClusters = 50;
constexpr std::size_t kReplicates = 1'999;
constexpr std::size_t kLeastReplicates = 499;
constexpr std::size_t kVisitLimit = 40'000'000;  ///< outcomes looked at in all, which bounds the time

/// 2|d| − E|N(d, σ²)| for d from N(μ, σ²) is |μ| with a bias between these multiples of σ: the largest at
/// μ = 0, the least at 1.5σ; none to speak of where |d| is over 3σ.
constexpr double kLargestBias = 0.468, kLeastBias = -0.095, kNoBiasBeyond = 3;

struct Bin {
  double n = 0, sum = 0, squares = 0;

  [[nodiscard]] double mean() const { return n > 0 ? sum / n : 0; }
  [[nodiscard]] double error() const {
    if (n <= 1) return 0;
    return std::sqrt(std::max(0.0, (squares - n * mean() * mean()) / (n - 1) / n));
  }
  [[nodiscard]] double debiased() const { return 2 * std::abs(mean()) - folded_mean(mean(), error()); }
  /// E|N(mean, error²)|.
  [[nodiscard]] static double folded_mean(double mean, double error) {
    if (error <= 0) return std::abs(mean);
    const double z = mean / error;
    return error * std::sqrt(2 / std::numbers::pi) * std::exp(-z * z / 2) + mean * (1 - 2 * normal_cdf(-z));
  }
};
using Bins = std::array<Bin, kCalibrationBins>;

/// Bins of equal mass over a sorted sequence; `at(i)` gives the weight and the value of its i-th item. An
/// item counted several times stays whole, in the bin of its middle.
template <typename At>
Bins fill_bins(std::size_t count, std::uint64_t total, At at) {
  Bins bins{};
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [weight, value] = at(i);
    if (weight == 0) continue;
    const std::uint64_t middle = before + (weight - 1) / 2;
    Bin& bin = bins[std::min<std::uint64_t>(middle * kCalibrationBins / total, kCalibrationBins - 1)];
    bin.n += weight;
    bin.sum += weight * value;
    bin.squares += weight * value * value;
    before += weight;
  }
  return bins;
}

double weighted(const Bins& bins, double (Bin::*figure)() const) {
  double sum = 0;
  double n = 0;
  for (const Bin& bin : bins) {
    sum += bin.n * (bin.*figure)();
    n += bin.n;
  }
  return sum / n;
}

Bins bins_of(std::span<const Prediction> sorted) {
  std::uint64_t total = 0;
  for (const Prediction& one : sorted) total += one.weight;
  return fill_bins(sorted.size(), total, [&](std::size_t i) {
    return std::pair(sorted[i].weight, (sorted[i].correct ? 1.0 : 0.0) - sorted[i].confidence);
  });
}

/// How far the debiasing may be off in all bins together: Σ w σ over the bins that it may matter in.
double bias_scale(const Bins& bins) {
  double sum = 0;
  double n = 0;
  for (const Bin& bin : bins) {
    n += bin.n;
    if (std::abs(bin.mean()) <= kNoBiasBeyond * bin.error()) sum += bin.n * bin.error();
  }
  return sum / n;
}

/// The outcomes of one kernel in order of its confidence, with the cluster of each.
struct Side {
  std::vector<Prediction> sorted;
  std::vector<std::size_t> clusters;

  Side(std::span<const CalibrationOutcome> outcomes, bool inf) {
    std::vector<std::size_t> order(outcomes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto confidence = [&](std::size_t i) {
      return inf ? outcomes[i].confidence_inf : outcomes[i].confidence_train;
    };
    std::ranges::stable_sort(order, {}, confidence);
    for (const std::size_t i : order) {
      sorted.push_back({confidence(i), inf ? outcomes[i].correct_inf : outcomes[i].correct_train, 1});
      clusters.push_back(outcomes[i].cluster);
    }
  }

  [[nodiscard]] double resampled(const std::vector<std::uint32_t>& times) {
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i].weight = times[clusters[i]];
    return debiased_ece(sorted);
  }
};

/// How much the gaps of the two kernels differ, bin by bin of their mean confidence: the drift of the
/// calibration error is at most that, and next to nothing where the kernels are alike.
class GapDifference {
 public:
  explicit GapDifference(std::span<const CalibrationOutcome> outcomes)
      : sorted_(outcomes.begin(), outcomes.end()) {
    std::ranges::stable_sort(
        sorted_, {}, [](const CalibrationOutcome& one) { return one.confidence_train + one.confidence_inf; });
  }

  /// Σ w |mean difference|; `times` counts each cluster, an empty one counts all once.
  [[nodiscard]] double figure(const std::vector<std::uint32_t>& times) const {
    const auto weight = [&](std::size_t i) { return times.empty() ? 1U : times[sorted_[i].cluster]; };
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < sorted_.size(); ++i) total += weight(i);
    const Bins bins = fill_bins(sorted_.size(), total, [&](std::size_t i) {
      const CalibrationOutcome& one = sorted_[i];
      const double correct = static_cast<double>(one.correct_inf) - static_cast<double>(one.correct_train);
      return std::pair(weight(i), correct - (one.confidence_inf - one.confidence_train));
    });
    double sum = 0;
    for (const Bin& bin : bins) sum += bin.n * std::abs(bin.mean());
    return sum / static_cast<double>(total);
  }

 private:
  std::vector<CalibrationOutcome> sorted_;
};

/// Replicates less their mean, sorted.
struct Replicates {
  std::vector<double> values;

  void centre() {
    const double mean =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    for (double& value : values) value -= mean;
    std::ranges::sort(values);
  }
  /// The share at most and at least `observed`, itself counted.
  [[nodiscard]] double at_most(double observed) const {
    return static_cast<double>(1 + (std::ranges::upper_bound(values, observed) - values.begin())) /
           static_cast<double>(values.size() + 1);
  }
  [[nodiscard]] double at_least(double observed) const {
    return static_cast<double>(1 + (values.end() - std::ranges::lower_bound(values, observed))) /
           static_cast<double>(values.size() + 1);
  }
};

struct Resampled {
  Replicates drift, difference;
};

Resampled resample(std::span<const CalibrationOutcome> outcomes, Side& train, Side& inf,
                   const GapDifference& gaps, std::size_t clusters, std::uint64_t seed) {
  const std::size_t count = std::clamp(kVisitLimit / (3 * outcomes.size()), kLeastReplicates, kReplicates);
  Random random(seed);
  Resampled out;
  std::vector<std::uint32_t> times(clusters);
  for (std::size_t replicate = 0; replicate < count; ++replicate) {
    std::ranges::fill(times, 0U);
    for (std::size_t i = 0; i < clusters; ++i) ++times[random.below(clusters)];
    out.drift.values.push_back(inf.resampled(times) - train.resampled(times));
    out.difference.values.push_back(gaps.figure(times));
  }
  out.drift.centre();
  out.difference.centre();
  return out;
}

}  // namespace

double debiased_ece(std::span<const Prediction> sorted) {
  if (std::ranges::all_of(sorted, [](const Prediction& one) { return one.weight == 0; })) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return weighted(bins_of(sorted), &Bin::debiased);
}

MeanTest calibration_drift(std::span<const CalibrationOutcome> outcomes, double tau, double alpha,
                           std::uint64_t seed) {
  MeanTest test;
  test.method = "debiased L1 calibration error, 15 bins of equal mass, paired cluster bootstrap";
  test.approximate = true;
  test.n = outcomes.size();
  for (const CalibrationOutcome& one : outcomes)
    test.clusters = std::max<std::uint64_t>(test.clusters, one.cluster + 1);
  if (outcomes.empty()) return test;
  Side train(outcomes, false);
  Side inf(outcomes, true);
  test.details["ece_train"] = debiased_ece(train.sorted);
  test.details["ece_inf"] = debiased_ece(inf.sorted);
  test.estimate = test.details["ece_inf"] - test.details["ece_train"];
  if (outcomes.size() < kLeastCalibrationOutcomes || test.clusters < kLeastClusters) {
    test.undecidable = "15 bins need at least 150 outcomes of 50 independent sequences, and there are " +
                       std::to_string(outcomes.size()) + " of " + std::to_string(test.clusters);
    return test;
  }
  const GapDifference gaps(outcomes);
  const double difference = gaps.figure({});
  const double off_train = bias_scale(bins_of(train.sorted));
  const double off_inf = bias_scale(bins_of(inf.sorted));
  const Resampled resampled = resample(outcomes, train, inf, gaps, test.clusters, seed);
  const auto& drifts = resampled.drift.values;
  const auto& differences = resampled.difference.values;
  // Two limits on each side, each at half the level: the drift itself with what the debiasing may have left,
  // and the difference of the gaps, which no drift exceeds.
  const auto k = static_cast<std::size_t>(std::floor(alpha / 2 * static_cast<double>(drifts.size() + 1)));
  if (k == 0) {
    test.undecidable = "the level asked for is finer than the resampling can resolve";
    return test;
  }
  const double high = test.estimate + kLargestBias * off_train - kLeastBias * off_inf;
  const double low = test.estimate - kLargestBias * off_inf + kLeastBias * off_train;
  const double widest = difference - differences[k - 1];
  test.upper = std::min(high - drifts[k - 1], widest);
  test.lower = std::max(low - drifts[drifts.size() - k], -widest);
  const Replicates& drift = resampled.drift;
  const Replicates& gap = resampled.difference;
  test.p_low = std::min(1.0, 2 * std::min(drift.at_most(high - tau), gap.at_most(difference - tau)));
  test.p_high = std::min(1.0, 2 * std::min(drift.at_least(low - tau), gap.at_most(difference + tau)));
  // Halved, so that the finest p-value is twice that of one resampling.
  test.details["replicates"] = (static_cast<double>(drifts.size()) + 1) / 2 - 1;
  test.details["gap_difference"] = difference;
  return test;
}

}  // namespace driftgate::stages
