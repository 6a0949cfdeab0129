#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// One kernel's answer: the probability of its greedy token, and whether it was right. `weight` counts it
/// several times.
struct Prediction {
  double confidence = 0;
  bool correct = false;
  std::uint32_t weight = 1;
};

/// One outcome by both kernels.
struct CalibrationOutcome {
  double confidence_train = 0, confidence_inf = 0;
  bool correct_train = false, correct_inf = false;
  std::size_t cluster = 0;  ///< outcomes with the same number are dependent; numbered from 0
};

inline constexpr std::size_t kCalibrationBins = 15;
/// Ten outcomes for each bin, below which its debiasing means nothing.
inline constexpr std::size_t kLeastCalibrationOutcomes = 10 * kCalibrationBins;

/// Expected calibration error in L1 over 15 bins of equal mass, less the bias of |mean| in each bin: with d
/// the mean of correct − confidence in a bin and σ its standard error, 2|d| − E|N(d, σ²)| (Kumar, Liang & Ma,
/// "Verified uncertainty calibration", NeurIPS 2019; equal mass after Roelofs et al., AISTATS 2022). May be
/// slightly negative for a calibrated kernel. `sorted` is by confidence.
[[nodiscard]] double debiased_ece(std::span<const Prediction> sorted);

/// ECE(inf) − ECE(train) against τ: paired bootstrap over clusters, the replicates centred at their own mean,
/// since a resample's calibration error has a bias of its own. No debiasing of |mean| is complete near 0, so
/// that the limits leave room for the most that this one leaves; beside them stands the difference of the two
/// kernels' gaps in bins of their mean confidence, which the drift does not exceed (triangle inequality) and
/// which is next to nothing for kernels that are alike. Each of the two has half of the level. Approximate,
/// seeded; undecidable with fewer than 150 outcomes or 50 clusters. details: ece_train, ece_inf,
/// gap_difference, replicates (those that resolve the p-value). See docs/design/statistics.md, "Calibration".
[[nodiscard]] MeanTest calibration_drift(std::span<const CalibrationOutcome> outcomes, double tau,
                                         double alpha, std::uint64_t seed);

}  // namespace driftgate::stages
