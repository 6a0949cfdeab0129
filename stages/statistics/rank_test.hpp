#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace driftgate::stages {

/// Whether the values inside a group rank above those outside.
struct RankTest {
  /// Among all pairs of a value inside and one outside, the share in which the one inside is larger; ties
  /// count half.
  double superiority = 0.5;
  /// Of the null hypothesis that both groups have the same distribution; small if those inside rank above.
  double p_value = 1;
};

/// The Wilcoxon–Mann–Whitney test with mid-ranks, one-sided, on independent values that are not NaN. Under
/// the null hypothesis, given all the values with their ties, every choice of the group inside is equally
/// likely. The p-value is an upper bound of the permutation probability of a rank sum at least as large:
/// Chernoff's bound for draws with replacement, which holds for draws without replacement as well (Hoeffding,
/// "Probability inequalities for sums of bounded random variables", JASA 1963, theorem 4), applied to the
/// smaller group. It is therefore valid at every size, needs no resampling, and resolves arbitrarily small
/// p-values. 1 if a group is empty.
[[nodiscard]] RankTest ranks_above(std::span<const double> inside, std::span<const double> outside);

/// The mid-ranks of `values` divided by the number of values, in (0, 1]. NaN is not ranked: its rank is NaN.
[[nodiscard]] std::vector<double> mid_ranks(std::span<const double> values);

}  // namespace driftgate::stages
