#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// A prediction of one kernel: the probability of its greedy token, and whether the answer was right. It
/// counts `weight` times.
struct Prediction {
  double confidence = 0;
  bool correct = false;
  std::uint32_t weight = 1;
};

/// The outcome of one task with both kernels. Confidences are probabilities in [0, 1].
struct CalibrationOutcome {
  double confidence_train = 0, confidence_inf = 0;
  bool correct_train = false, correct_inf = false;
  std::size_t cluster = 0;  ///< from 0 without gaps; outcomes with the same number are dependent
};

inline constexpr std::size_t kCalibrationBins = 15;
/// Ten outcomes for each bin. With fewer the debiasing is meaningless.
inline constexpr std::size_t kLeastCalibrationOutcomes = 10 * kCalibrationBins;

/// The expected calibration error in L1 over 15 bins of equal mass, without the bias of |mean| in each bin:
/// with d the mean of correct − confidence in a bin and σ its standard error, a bin contributes 2|d| − E|N(d,
/// σ²)| (Kumar, Liang & Ma, "Verified uncertainty calibration", NeurIPS 2019; bins of equal mass: Roelofs et
/// al., AISTATS 2022). It may be slightly negative for a calibrated kernel, and is NaN without predictions.
/// Precondition: `sorted` is sorted by confidence.
[[nodiscard]] double debiased_ece(std::span<const Prediction> sorted);

/// Tests ECE(inf) − ECE(train) against τ by a paired bootstrap over clusters (docs/design/statistics.md,
/// "Calibration"). Replicates are centred at their own mean, since the calibration error of a resample has a
/// bias of its own. Two limits are combined, each at half of the level. The first is that of the drift,
/// widened by the largest error that the debiasing can have near 0. The second is that of the mean absolute
/// difference of the kernels' gaps between confidence and accuracy, in bins of their mean confidence: with
/// the same bins, the triangle inequality makes it no smaller than the drift, and it is close to 0 for
/// kernels that are alike. Approximate and seeded. Undecidable with fewer than 150 outcomes or 50 clusters,
/// and at a level that the resampling cannot resolve. details: ece_train, ece_inf, gap_difference, and
/// replicates, the number that determines the finest p-value.
[[nodiscard]] MeanTest calibration_drift(std::span<const CalibrationOutcome> outcomes, double tau,
                                         double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
