#include "stages/statistics/mean_test.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {
std::vector<ClusterSum> repeated(std::size_t count, double n, double mean) {
  return std::vector<ClusterSum>(count, ClusterSum{n, n * mean});
}
/// Values in [0, 1], up to 20 a cluster.
constexpr ValueRange kUnits{0, 1, 20};
}  // namespace

TEST_CASE("the cluster variance of two clusters is the one computed by hand") {
  // x̄ = (1 + 3)/4 = 1; residuals 1 − 2 = −1 and 3 − 2 = 1; V = 2/1·(1 + 1)/16 = 1/4.
  const std::vector<ClusterSum> clusters{{2, 1}, {2, 3}};
  CHECK(ratio_mean(clusters) == 1.0);
  CHECK(cluster_variance(clusters, 1.0) == 0.25);
}

TEST_CASE("clusters that count once weigh their means and not their sizes") {
  std::vector<ClusterSum> clusters{{2, 1}, {8, 8}, {0, 0}};
  count_once(clusters);
  CHECK(clusters[0].sum == 0.5);
  CHECK(clusters[1].n == 1.0);
  CHECK(ratio_mean(clusters) == 0.75);
}

TEST_CASE("betting is scaled by a length that is known, and refuses a longer cluster") {
  // 200 sequences of 10 rows without drift: scaled by 10 they prove 0.02, by 250 they are worth 8.
  const auto short_ones = repeated(200, 10, 0);
  CHECK(betting_mean(short_ones, 0.02, {0, 1, 10}, 0.05, 1).p_low <= 0.05);
  CHECK(betting_mean(short_ones, 0.02, {0, 1, 250}, 0.05, 1).p_low > 0.05);
  CHECK(betting_mean(repeated(5'000, 10, 0), 0.02, {0, 1, 250}, 0.05, 1).p_low <= 0.05);
  auto one_longer = short_ones;
  one_longer.push_back({11, 0});
  const MeanTest refused = betting_mean(one_longer, 0.02, {0, 1, 10}, 0.05, 1);
  CHECK(refused.undecidable == "one sequence has 11 units and the limit rests on at most 10");
  CHECK(refused.p_low == 1.0);
  CHECK_FALSE(refused.upper.has_value());
  CHECK(betting_e_value(one_longer, 0.02, {0, 1, 10}, true, 1) == 1.0);
  CHECK(betting_p_value(one_longer, 0.02, {0, 1, 10}, false, 1) == 1.0);
}

TEST_CASE("the p-value alone is that of the whole test") {
  Random random(3);
  std::vector<ClusterSum> clusters;
  for (int i = 0; i < 150; ++i) clusters.push_back({1, 0.3 * random.uniform()});
  for (const double tau : {0.0, 0.05, 0.14, 0.16, 0.3, 0.5, 1.0}) {
    CAPTURE(tau);
    const MeanTest test = betting_mean(clusters, tau, {0, 0.5, 1}, 0.05, 9);
    CHECK(betting_p_value(clusters, tau, {0, 0.5, 1}, false, 9) == test.p_low);
    CHECK(betting_p_value(clusters, tau, {0, 0.5, 1}, true, 9) == test.p_high);
  }
}

TEST_CASE("a quantile clause without exceedance takes 3,025 clusters at cap 0.99 and 5,987 at one half") {
  CHECK(betting_units_without_event(0.001, 0.05, 0.99) == 3025);
  CHECK(betting_units_without_event(0.001, 0.05, 0.5) == 5987);
  const auto enough = repeated(3025, 20, 0);
  const auto too_few = repeated(3024, 20, 0);
  CHECK(betting_mean(enough, 0.001, kUnits, 0.05, 1).p_low <= 0.05);
  CHECK(betting_mean(too_few, 0.001, kUnits, 0.05, 1).p_low > 0.05);
  CHECK(betting_mean(repeated(5987, 20, 0), 0.001, kUnits, 0.05, 1, 0.5).p_low <= 0.05);
  CHECK(betting_mean(repeated(5986, 20, 0), 0.001, kUnits, 0.05, 1, 0.5).p_low > 0.05);
}

TEST_CASE("betting limits are consistent with the test at the threshold") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<ClusterSum> clusters;
    for (int i = 0; i < 120; ++i) clusters.push_back({5, 5 * 0.1 * random.uniform()});
    for (const double tau : {0.01, 0.04, 0.05, 0.06, 0.1, 0.3}) {
      const MeanTest test = betting_mean(clusters, tau, kUnits, 0.05, seed);
      CHECK((test.p_low <= 0.05) == (*test.upper <= tau));
      CHECK((test.p_high <= 0.05) == (*test.lower >= tau));
      CHECK(*test.lower <= *test.upper);
      CHECK(*test.lower <= test.estimate);
      CHECK(test.estimate <= *test.upper);
    }
  }
}

TEST_CASE("the order of clusters is the seed's: the same seed gives the same figures") {
  Random random(7);
  std::vector<ClusterSum> clusters;
  for (int i = 0; i < 80; ++i) clusters.push_back({3, 3 * random.uniform()});
  const MeanTest one = betting_mean(clusters, 0.6, kUnits, 0.05, 11);
  const MeanTest same = betting_mean(clusters, 0.6, kUnits, 0.05, 11);
  const MeanTest other = betting_mean(clusters, 0.6, kUnits, 0.05, 12);
  CHECK(one.p_low == same.p_low);
  CHECK(one.upper == same.upper);
  CHECK(one.p_low != other.p_low);
}

TEST_CASE("a threshold of zero cannot be proven by betting and is broken by any positive value") {
  CHECK(betting_mean(repeated(100, 1, 0), 0, kUnits, 0.05, 1).p_low == 1.0);
  std::vector<ClusterSum> one = repeated(100, 1, 0);
  one[50].sum = 0.25;
  CHECK(betting_mean(one, 0, kUnits, 0.05, 1).p_high == 0.0);
}

TEST_CASE("exceedance is exactly binomial when every cluster is one row") {
  std::vector<ClusterSum> rows = repeated(2995, 1, 0);
  CHECK(exceedance(rows, 0.001, 0.05, 1).method == "exact binomial");
  CHECK(exceedance(rows, 0.001, 0.05, 1).p_low <= 0.05);
  rows.pop_back();
  CHECK(exceedance(rows, 0.001, 0.05, 1).p_low > 0.05);
}

TEST_CASE("sequences of many rows count once by their share of rows beyond") {
  // A long sequence with all of its rows beyond is one sequence among 101.
  std::vector<ClusterSum> rows = repeated(100, 4, 0);
  rows.push_back({10'000, 10'000});
  const MeanTest test = exceedance(rows, 0.1, 0.05, 1);
  CHECK(test.estimate == doctest::Approx(1 / 101.0));
  CHECK(test.n == 10'400);
  CHECK(test.clusters == 101);
  CHECK(test.p_low <= 0.05);
}

TEST_CASE("an unbounded mean is undecided with 49 clusters or one heavy one") {
  CHECK(!bootstrap_t(repeated(49, 1, 0.1), 1, 0.05, 1).undecidable.empty());
  std::vector<ClusterSum> heavy = repeated(60, 1, 0.1);
  heavy[0].sum = 1;
  CHECK(!bootstrap_t(heavy, 1, 0.05, 1).undecidable.empty());
  for (std::size_t i = 0; i < heavy.size(); ++i) heavy[i].sum = 0.1 + 0.01 * static_cast<double>(i % 9);
  const MeanTest test = bootstrap_t(heavy, 0.2, 0.05, 1);
  CHECK(test.undecidable.empty());
  CHECK(test.approximate);
  CHECK(test.p_low <= 0.05);
  CHECK(*test.upper < 0.15);
}

TEST_CASE("a mean whose spread hangs on one cluster has no upper limit") {
  std::vector<ClusterSum> one = repeated(60, 1, 0.1);
  one[0].sum = 0.5;
  const MeanTest test = bootstrap_t(one, 1, 0.05, 1);
  // A third of all resamples miss that cluster and have no spread of their own.
  CHECK(std::isinf(*test.upper));
  CHECK(test.p_low > 0.05);
}

TEST_CASE("kernels that agree in every bit pass an unbounded mean") {
  const MeanTest test = bootstrap_t(repeated(60, 8, 0), 1e-4, 0.05, 1);
  CHECK(test.undecidable.empty());
  CHECK(test.p_low <= 0.05);
  CHECK(*test.upper == 0.0);
}
