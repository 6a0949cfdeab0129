#include "stages/slices/rest_test.hpp"

#include <algorithm>
#include <iterator>

#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

std::vector<double> above_zero(const std::vector<double>& figures) {
  std::vector<double> found;
  std::ranges::copy_if(figures, std::back_inserter(found), [](double value) { return value > 0; });
  return found;
}

bool large_enough(const std::vector<double>& inside, const std::vector<double>& outside) {
  return std::min(inside.size(), outside.size()) >= kLeastCompared;
}

/// Ranks of the figures above 0, those inside divided by `ratio`.
RankTest rank_above_zero(const Sides& sides, double ratio) {
  if (sides.mean_inside() <= ratio * sides.mean_outside()) return {};
  std::vector<double> inside = above_zero(sides.inside);
  const std::vector<double> outside = above_zero(sides.outside);
  if (!large_enough(inside, outside)) return {};
  for (double& value : inside) value /= ratio;
  return ranks_above(inside, outside);
}

RestTest conclude(RestTest test, const Comparisons& comparisons) {
  test.smallest = test.ranks.p_value;
  if (test.zero_share_p < test.smallest) {
    test.by = RestMethod::zero_share;
    test.smallest = test.zero_share_p;
  }
  if (test.above_zero.p_value < test.smallest) {
    test.by = RestMethod::ranks_above_zero;
    test.smallest = test.above_zero.p_value;
  }
  test.p_value = std::min(1.0, comparisons.count() * test.smallest);
  return test;
}

}  // namespace

double share_above_zero(const std::vector<double>& figures) {
  if (figures.empty()) return 0;
  const auto above = std::ranges::count_if(figures, [](double value) { return value > 0; });
  return static_cast<double>(above) / static_cast<double>(figures.size());
}

Comparisons choose_comparisons(const std::vector<double>& figures) {
  const std::vector<double> above = above_zero(figures);
  const auto zeros = static_cast<double>(figures.size() - above.size());
  if (above.size() < kLeastCompared || zeros < kManyZeros * static_cast<double>(figures.size())) return {};
  const auto [least, most] = std::ranges::minmax(above);
  return {.zero_share = true, .above_zero = least < most};
}

RestTest compare_sides(const Sides& sides, const Comparisons& comparisons) {
  RestTest test;
  if (!large_enough(sides.inside, sides.outside)) return test;
  test.ranks = ranks_above(sides.inside, sides.outside);
  if (comparisons.zero_share && sides.mean_inside() > sides.mean_outside()) {
    const std::uint64_t inside = above_zero(sides.inside).size();
    test.zero_share_p =
        hypergeometric_at_least(inside, sides.inside.size(), inside + above_zero(sides.outside).size(),
                                sides.inside.size() + sides.outside.size());
  }
  if (comparisons.above_zero) test.above_zero = rank_above_zero(sides, 1);
  return conclude(test, comparisons);
}

RestTest compare_at_ratio(const Sides& sides, const Comparisons& comparisons, double ratio) {
  RestTest test;
  if (!large_enough(sides.inside, sides.outside)) return test;
  if (comparisons.above_zero) test.above_zero = rank_above_zero(sides, ratio);
  if (comparisons.zero_share) return conclude(test, comparisons);
  std::vector<double> inside = sides.inside;
  for (double& value : inside) value /= ratio;
  test.ranks = ranks_above(inside, sides.outside);
  return conclude(test, comparisons);
}

std::string method_text(RestMethod method) {
  switch (method) {
    case RestMethod::ranks:
      break;
    case RestMethod::zero_share:
      return "share above zero against the rest of the corpus, Fisher, Holm";
    case RestMethod::ranks_above_zero:
      return "ranks of the figures above zero against the rest of the corpus, Holm";
  }
  return "ranks against the rest of the corpus, Holm";
}

}  // namespace driftgate::stages
