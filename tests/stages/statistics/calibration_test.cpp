#include "stages/statistics/calibration.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

/// Outcomes of a kernel that is right with probability `confidence` and of one that claims `over` more.
std::vector<CalibrationOutcome> outcomes(std::size_t count, double over, std::uint64_t seed,
                                         std::size_t per_cluster = 1) {
  Random random(seed);
  std::vector<CalibrationOutcome> list;
  for (std::size_t i = 0; i < count; ++i) {
    const double confidence = 0.4 + 0.5 * random.uniform();
    const bool correct = random.uniform() < confidence;
    list.push_back({confidence, confidence + over, correct, correct, i / per_cluster});
  }
  return list;
}

}  // namespace

TEST_CASE("the calibration error of one bin of equal gaps is the gap itself") {
  // Fifteen predictions, one for each bin: no spread within a bin, so nothing to take off.
  std::vector<Prediction> sorted;
  for (int i = 0; i < 15; ++i) sorted.push_back({0.75, true, 1});
  CHECK(debiased_ece(sorted) == doctest::Approx(0.25).epsilon(1e-12));
}

TEST_CASE("the debiased error of a bin is the one computed by hand") {
  // All in one gap pattern: each bin holds one right and one wrong at confidence ½, so d = 0 and σ² =
  // 0.5/1/2 = 0.25; 2·0 − E|N(0, ½²)| = −½·√(2/π).
  std::vector<Prediction> sorted;
  for (int i = 0; i < 30; ++i) sorted.push_back({0.5, i % 2 == 0, 1});
  CHECK(debiased_ece(sorted) == doctest::Approx(-0.5 * std::sqrt(2 / std::numbers::pi)).epsilon(1e-12));
}

TEST_CASE("a weight counts a prediction several times") {
  std::vector<Prediction> doubled;
  std::vector<Prediction> repeated;
  for (int i = 0; i < 60; ++i) {
    const Prediction one{0.3 + 0.01 * i, i % 3 == 0, 1};
    repeated.push_back(one);
    repeated.push_back(one);
    doubled.push_back({one.confidence, one.correct, 2});
  }
  CHECK(debiased_ece(doubled) == doctest::Approx(debiased_ece(repeated)).epsilon(1e-12));
}

TEST_CASE("the debiased error of a calibrated kernel is about zero where the plain one is not") {
  double sum = 0;
  double plain = 0;
  constexpr int kRuns = 40;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const auto list = outcomes(600, 0, seed);
    std::vector<Prediction> sorted;
    for (const auto& one : list) sorted.push_back({one.confidence_train, one.correct_train, 1});
    std::ranges::sort(sorted, {}, &Prediction::confidence);
    sum += debiased_ece(sorted) / kRuns;
    for (std::size_t bin = 0; bin < 15; ++bin) {
      double gap = 0;
      for (std::size_t i = bin * 40; i < bin * 40 + 40; ++i) {
        gap += ((sorted[i].correct ? 1 : 0) - sorted[i].confidence) / 600;
      }
      plain += std::abs(gap) / kRuns;
    }
  }
  // A bin of 40 has a standard error of 0.075, whose mean absolute value is 0.06; of that mean a third stays,
  // because |d| of pure noise is folded twice: (2 − √2)·0.06 = 0.035.
  CHECK(plain > 0.05);
  CHECK(sum < plain / 2 + 0.01);
}

TEST_CASE("a kernel that claims a tenth more than it keeps is found and one that does not is cleared") {
  const MeanTest worse = calibration_drift(outcomes(2'000, 0.1, 1), 0.02, 0.05, 1);
  CHECK(worse.estimate > 0.05);
  CHECK(worse.estimate < 0.12);
  CHECK(worse.p_high <= 0.05);
  CHECK(*worse.lower > 0.02);
  CHECK(worse.approximate);
  const MeanTest same = calibration_drift(outcomes(2'000, 0, 2), 0.02, 0.05, 1);
  CHECK(same.estimate == 0);
  CHECK(same.p_low <= 0.05);
}

TEST_CASE("149 outcomes or 49 clusters are too few for 15 bins") {
  CHECK_FALSE(calibration_drift(outcomes(149, 0, 1), 0.02, 0.05, 1).undecidable.empty());
  CHECK(calibration_drift(outcomes(150, 0, 1), 0.02, 0.05, 1).undecidable.empty());
  CHECK_FALSE(calibration_drift(outcomes(196, 0, 1, 4), 0.02, 0.05, 1).undecidable.empty());
  CHECK(calibration_drift(outcomes(200, 0, 1, 4), 0.02, 0.05, 1).undecidable.empty());
}

TEST_CASE("limits and p-values of the drift agree at the threshold") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const auto list = outcomes(300, 0.04, seed);
    for (const double tau : {-0.02, 0.0, 0.02, 0.04, 0.08}) {
      const MeanTest test = calibration_drift(list, tau, 0.05, seed);
      CHECK((test.p_low <= 0.05) == (*test.upper <= tau));
      CHECK((test.p_high <= 0.05) == (*test.lower >= tau));
    }
  }
}
