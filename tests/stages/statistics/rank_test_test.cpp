#include "stages/statistics/rank_test.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

/// Of all choices of as many values as are inside, the share whose rank sum is at least that of the ones
/// inside.
double permutation_p(const std::vector<double>& inside, const std::vector<double>& outside) {
  std::vector<double> all(inside);
  all.insert(all.end(), outside.begin(), outside.end());
  const std::vector<double> ranks = mid_ranks(all);
  const double seen =
      std::accumulate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(inside.size()), 0.0);
  std::vector<bool> chosen(all.size(), false);
  std::fill(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(inside.size()), true);
  double choices = 0;
  double as_large = 0;
  do {
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) sum += chosen[i] ? ranks[i] : 0;
    choices += 1;
    as_large += sum >= seen - 1e-9 ? 1 : 0;
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return as_large / choices;
}

double superiority(const std::vector<double>& inside, const std::vector<double>& outside) {
  double wins = 0;
  for (const double a : inside) {
    for (const double b : outside) wins += a > b ? 1 : (a == b ? 0.5 : 0);
  }
  return wins / static_cast<double>(inside.size() * outside.size());
}

}  // namespace

TEST_CASE("mid-ranks share the places of equal values") {
  const std::vector<double> values{3, 1, 3, std::nan(""), 2};
  const std::vector<double> ranks = mid_ranks(values);
  CHECK(ranks[0] == doctest::Approx(3.5 / 4));
  CHECK(ranks[1] == doctest::Approx(1.0 / 4));
  CHECK(ranks[2] == doctest::Approx(3.5 / 4));
  CHECK(std::isnan(ranks[3]));
  CHECK(ranks[4] == doctest::Approx(2.0 / 4));
}

TEST_CASE("the p-value is never below that of all permutations, ties and both group sizes included") {
  Random random(41);
  double closest = 1e9;
  for (int run = 0; run < 300; ++run) {
    const std::size_t m = 2 + random.below(5);
    const std::size_t rest = 2 + random.below(8);
    const bool tied = run % 2 == 0;
    const double shift = run % 3 == 0 ? 0.5 : 0;
    std::vector<double> inside(m);
    std::vector<double> outside(rest);
    const auto draw = [&] { return tied ? static_cast<double>(random.below(4)) / 4 : random.uniform(); };
    for (double& value : inside) value = draw() + shift;
    for (double& value : outside) value = draw();
    const RankTest test = ranks_above(inside, outside);
    const double exact = permutation_p(inside, outside);
    CAPTURE(run);
    CHECK(test.p_value >= exact - 1e-12);
    CHECK(test.p_value <= 1);
    CHECK(test.superiority == doctest::Approx(superiority(inside, outside)));
    closest = std::min(closest, test.p_value / exact);
  }
  // It bounds the probability and does not merely say 1.
  CHECK(closest < 2);
}

TEST_CASE("groups of one law are told apart no more often than the level says, and a shift is found") {
  Random random(42);
  constexpr int kRuns = 2'000;
  int apart = 0;
  int found = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> inside(40);
    std::vector<double> outside(200);
    for (double& value : inside) value = random.uniform();
    for (double& value : outside) value = random.uniform();
    apart += ranks_above(inside, outside).p_value <= 0.05 ? 1 : 0;
    for (double& value : inside) value += 0.3;
    found += ranks_above(inside, outside).p_value <= 0.05 / 200 ? 1 : 0;
  }
  MESSAGE("false " << apart << " and found " << found << " of " << kRuns);
  CHECK(apart <= kRuns * (0.05 + 3 * std::sqrt(0.05 * 0.95 / kRuns)));
  CHECK(found >= kRuns * 0.75);
}

TEST_CASE("nothing is said of one group alone, and where all are equal") {
  CHECK(ranks_above({}, std::vector<double>{1, 2}).p_value == 1);
  CHECK(ranks_above(std::vector<double>{1, 2}, {}).p_value == 1);
  const std::vector<double> same(20, 0.0);
  CHECK(ranks_above(same, same).p_value == doctest::Approx(1));
  CHECK(ranks_above(same, same).superiority == doctest::Approx(0.5));
}

TEST_CASE("values above all others resolve p-values far below what resampling would") {
  const std::vector<double> inside(60, 2.0);
  const std::vector<double> outside(1'940, 1.0);
  const RankTest test = ranks_above(inside, outside);
  // All draws are the largest ones: (60/2000)^60.
  CHECK(std::log(test.p_value) == doctest::Approx(60 * std::log(0.03)).epsilon(0.01));
  CHECK(test.superiority == doctest::Approx(1));
}
