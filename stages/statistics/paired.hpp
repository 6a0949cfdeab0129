#pragma once

#include <cstdint>
#include <span>

#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// Whether each kernel solved one task.
struct PairedOutcome {
  bool train = false, inf = false;
  std::uint64_t cluster = 0;  ///< outcomes with the same number are dependent
};

/// Tests δ = P(inf right) − P(train right) against −margin (docs/design/statistics.md, "Paired outcomes"):
/// non-inferiority (δ > −margin) is proven if `p_high ≤ α`, inferiority (δ < −margin) if `p_low ≤ α`. The
/// method is
/// - if outcomes share a cluster, betting on each cluster's mean difference in [−1, 1], each cluster counting
///   once: exact;
/// - with fewer than 25 discordant pairs, the difference of two Clopper–Pearson limits at α/2 each;
/// - else one-sided z on the discordant counts with half a pair added to each (after Agresti & Min,
///   Biometrics 2005): approximate.
///
/// details: b (only train right), c (only inf right), harm_p (p-value of "δ ≥ 0"). Undecidable without
/// outcomes.
[[nodiscard]] MeanTest paired_outcomes(std::span<const PairedOutcome> outcomes, double margin, double alpha,
                                       std::uint64_t seed);

}  // namespace driftgate::stages
