#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace driftgate::stages {

/// Whether the values of one group rank above those of another.
struct RankTest {
  /// Of the pairs of one value inside and one outside, the share in which the one inside is larger; equal
  /// ones count half.
  double superiority = 0.5;
  /// Of the null hypothesis that both groups have the same distribution; small when those inside rank above.
  double p_value = 1;
};

/// The Wilcoxon–Mann–Whitney test with mid-ranks, one-sided, on independent values that are not NaN. Under
/// the null every choice of the group inside is equally likely (given all the values, ties included), and the
/// p-value bounds the probability of a rank sum as large: Chernoff's bound for draws with replacement, which
/// holds for draws without it (Hoeffding, "Probability inequalities for sums of bounded random variables",
/// JASA 1963, Theorem 4), taken on the smaller of the two groups. It is therefore exact at every size, needs
/// no resampling, and resolves any family of tests. 1 without a value on either side.
[[nodiscard]] RankTest ranks_above(std::span<const double> inside, std::span<const double> outside);

/// Mid-ranks of `values` divided by their number, in (0, 1]; NaN ranks nowhere and is NaN.
[[nodiscard]] std::vector<double> mid_ranks(std::span<const double> values);

}  // namespace driftgate::stages
