#include "stages/statistics/mean_test.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {
std::vector<ClusterSum> repeated(std::size_t count, double n, double mean) {
  return std::vector<ClusterSum>(count, ClusterSum{n, n * mean});
}
}  // namespace

TEST_CASE("the cluster variance of two clusters is the one computed by hand") {
  // x̄ = (1 + 3)/4 = 1; residuals 1 − 2 = −1 and 3 − 2 = 1; V = 2/1·(1 + 1)/16 = 1/4.
  const std::vector<ClusterSum> clusters{{2, 1}, {2, 3}};
  CHECK(ratio_mean(clusters) == 1.0);
  CHECK(cluster_variance(clusters, 1.0) == 0.25);
}

TEST_CASE("the t limit of three clusters is the one computed by hand") {
  const std::vector<ClusterSum> clusters{{1, 1}, {1, 2}, {1, 3}};
  const MeanTest test = clustered_t(clusters, 5, 0.05);
  // se = 1/√3 and t_{0.95} with two degrees is 2.91998558 (tables).
  CHECK(*test.upper == doctest::Approx(2 + 2.91998558 / std::sqrt(3.0)).epsilon(1e-8));
  CHECK(test.p_low < 0.05);
  CHECK(test.p_high > 0.95);
}

TEST_CASE("a quantile clause without exceedance takes 3,025 clusters at cap 0.99 and 5,987 at one half") {
  CHECK(betting_units_without_event(0.001, 0.05, 0.99) == 3025);
  CHECK(betting_units_without_event(0.001, 0.05, 0.5) == 5987);
  const auto enough = repeated(3025, 20, 0);
  const auto too_few = repeated(3024, 20, 0);
  CHECK(betting_mean(enough, 0.001, 0, 1, 0.05, 1).p_low <= 0.05);
  CHECK(betting_mean(too_few, 0.001, 0, 1, 0.05, 1).p_low > 0.05);
  CHECK(betting_mean(repeated(5987, 20, 0), 0.001, 0, 1, 0.05, 1, 0.5).p_low <= 0.05);
  CHECK(betting_mean(repeated(5986, 20, 0), 0.001, 0, 1, 0.05, 1, 0.5).p_low > 0.05);
}

TEST_CASE("betting limits are consistent with the test at the threshold") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<ClusterSum> clusters;
    for (int i = 0; i < 120; ++i) clusters.push_back({5, 5 * 0.1 * random.uniform()});
    for (const double tau : {0.01, 0.04, 0.05, 0.06, 0.1, 0.3}) {
      const MeanTest test = betting_mean(clusters, tau, 0, 1, 0.05, seed);
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
  const MeanTest one = betting_mean(clusters, 0.6, 0, 1, 0.05, 11);
  const MeanTest same = betting_mean(clusters, 0.6, 0, 1, 0.05, 11);
  const MeanTest other = betting_mean(clusters, 0.6, 0, 1, 0.05, 12);
  CHECK(one.p_low == same.p_low);
  CHECK(one.upper == same.upper);
  CHECK(one.p_low != other.p_low);
}

TEST_CASE("a threshold of zero cannot be proven by betting and is broken by any positive value") {
  CHECK(betting_mean(repeated(100, 1, 0), 0, 0, 1, 0.05, 1).p_low == 1.0);
  std::vector<ClusterSum> one = repeated(100, 1, 0);
  one[50].sum = 0.25;
  CHECK(betting_mean(one, 0, 0, 1, 0.05, 1).p_high == 0.0);
}

TEST_CASE("a bounded mean is bet on below 200 clusters and by t from there") {
  std::vector<ClusterSum> clusters = repeated(199, 4, 0.01);
  CHECK(bounded_mean(clusters, 0.02, 0, 1, 0.05, 1).method == "betting, cap 0.99");
  clusters.push_back({4, 0.08});
  CHECK(bounded_mean(clusters, 0.02, 0, 1, 0.05, 1).method == "clustered t");
}

TEST_CASE("rare events in many clusters are not left to t") {
  const auto none = repeated(400, 4, 0);
  CHECK(bounded_mean(none, 0.001, 0, 1, 0.05, 1, true).p_low > 0.05);
  CHECK(bounded_mean(none, 0.001, 0, 1, 0.05, 1, false).p_low == 0.0);
}

TEST_CASE("exceedance is exactly binomial when every cluster is one row") {
  std::vector<ClusterSum> rows = repeated(2995, 1, 0);
  CHECK(exceedance(rows, 0.001, 0.05, 1).method == "exact binomial");
  CHECK(exceedance(rows, 0.001, 0.05, 1).p_low <= 0.05);
  rows.pop_back();
  CHECK(exceedance(rows, 0.001, 0.05, 1).p_low > 0.05);
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
