#pragma once

#include <cstdint>
#include <span>

#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// A task's outcome by both kernels on one sequence.
struct PairedOutcome {
  bool train = false, inf = false;
  std::uint64_t cluster = 0;  ///< outcomes with the same number are dependent
};

/// δ = P(inf right) − P(train right) against the margin: proven non-inferior when `p_high ≤ α` (δ > −m),
/// inferior when `p_low ≤ α` (δ < −m). One-sided z on the discordant counts with half a pair added to
/// each (after Agresti & Min, Biometrics 2005); with fewer than 25 discordant pairs the difference of two
/// Clopper–Pearson limits at α/2: level about α. When outcomes share a cluster, betting on each cluster's mean
/// difference in [−1, 1]: exact, and each cluster counts once.
/// details: b (only train right), c (only inf right), harm_p (p-value of "δ ≥ 0"). See
/// docs/design/statistics.md, "Paired outcomes".
[[nodiscard]] MeanTest paired_outcomes(std::span<const PairedOutcome> outcomes, double margin, double alpha,
                                       std::uint64_t seed);

}  // namespace driftgate::stages
