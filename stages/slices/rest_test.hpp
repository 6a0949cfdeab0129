#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/clauses/metric_test.hpp"
#include "stages/statistics/rank_test.hpp"

namespace driftgate::stages {

/// The least number of sequences, and of clusters, on each side of a comparison.
inline constexpr std::uint64_t kLeastCompared = 10;
/// Figures of zero are compared by themselves where at least this share of the corpus's sequences has one:
/// so many ties leave too little to the ranks of all figures.
inline constexpr double kManyZeros = 0.1;

/// The figures of independent units on both sides of a slice's border, larger ones worse, and their means.
struct Sides {
  std::vector<double> inside, outside;
  ClusterSum all_inside, all_outside;
  std::uint64_t sequences = 0;  ///< inside

  [[nodiscard]] double mean_inside() const { return all_inside.sum / all_inside.n; }
  [[nodiscard]] double mean_outside() const { return all_outside.sum / all_outside.n; }
};

/// The share of these figures above 0; 0 if there are none.
[[nodiscard]] double share_above_zero(const std::vector<double>& figures);

/// The ways in which the slices of one clause are compared. They are chosen by the figures of the whole
/// corpus without regard to slices, so that the choice does not depend on what is tested.
struct Comparisons {
  bool zero_share = false;  ///< besides the ranks of all figures, the share of figures above 0
  bool above_zero = false;  ///< and the ranks of the figures above 0

  [[nodiscard]] std::uint32_t count() const { return 1 + (zero_share ? 1 : 0) + (above_zero ? 1 : 0); }
};

/// For figures that cannot be negative, one for each sequence with a figure: only the ranks of all figures
/// unless a share of kManyZeros is 0, and at least kLeastCompared are not.
[[nodiscard]] Comparisons choose_comparisons(const std::vector<double>& figures);

enum class RestMethod : std::uint8_t { ranks, zero_share, ranks_above_zero };

/// What the comparisons of a slice with the rest of the corpus say.
struct RestTest {
  RankTest ranks;                     ///< of all figures
  double zero_share_p = 1;            ///< of more figures above 0 inside
  RankTest above_zero;                ///< ranks of the figures above 0
  RestMethod by = RestMethod::ranks;  ///< which p-value is the smallest
  double smallest = 1;                ///< that p-value
  double p_value = 1;                 ///< the smallest, times the number of comparisons
};

/// Whether the figures inside are worse than those outside. All p-values are valid at every size, given the
/// figures, if every choice of the units inside is equally likely: bounds for the ranks (rank_test.hpp),
/// Fisher's exact test for the share. 1 with fewer than kLeastCompared units on a side, and for
/// the ranks above 0 with fewer such units. The comparisons that set zeros apart say nothing (1) where the
/// mean inside is not the larger: rarer but larger differences are not taken for more drift.
[[nodiscard]] RestTest compare_sides(const Sides& sides, const Comparisons& comparisons);

/// Whether the figures inside are over `ratio` > 0 times as large as those outside, under the model that they
/// are those outside times a factor: the same for figures inside divided by `ratio`. Where zeros are set
/// apart, only the ranks of the figures above 0 are compared: no factor moves a zero, so that a slice that is
/// above zero more often would rank higher at every ratio. The number of comparisons by which the p-value is
/// multiplied stays.
[[nodiscard]] RestTest compare_at_ratio(const Sides& sides, const Comparisons& comparisons, double ratio);

/// How a verdict names the method.
[[nodiscard]] std::string method_text(RestMethod method);

}  // namespace driftgate::stages
