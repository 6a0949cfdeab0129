#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

std::vector<ClusterSum> once(const std::vector<double>& values) {
  std::vector<ClusterSum> clusters;
  for (const double value : values) clusters.push_back({1, value});
  return clusters;
}

/// Exponential values of this mean, at most 1; `zeros` of ten are 0.
std::vector<ClusterSum> skewed(std::size_t count, double mean, std::uint64_t seed, std::uint64_t zeros = 0) {
  Random random(seed);
  std::vector<ClusterSum> clusters;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::min(1.0, -mean * std::log1p(-random.uniform()));
    clusters.push_back({1, random.below(10) < zeros ? 0 : value});
  }
  return clusters;
}

std::vector<ClusterSum> ones_of(std::uint64_t ones, std::uint64_t count) {
  std::vector<ClusterSum> clusters(count, {1, 0});
  for (std::uint64_t i = 0; i < ones; ++i) clusters[i].sum = 1;
  return clusters;
}

/// The share of `draws` in which the weighted mean of the values and `added` is at least tau.
double drawn_share(const std::vector<ClusterSum>& clusters, double added, double tau, int draws,
                   Random& random) {
  int reached = 0;
  for (int i = 0; i < draws; ++i) {
    double sum = -std::log1p(-random.uniform()) * (added - tau);
    for (const ClusterSum& c : clusters) sum -= std::log1p(-random.uniform()) * (c.sum - tau);
    reached += sum >= 0 ? 1 : 0;
  }
  return static_cast<double>(reached) / draws;
}

}  // namespace

TEST_CASE("Gaffke's p-values are those of the closed form in rational arithmetic") {
  struct Row {
    std::vector<double> values;
    double tau, p_low, p_high;
  };
  std::vector<double> many(41, 0.01);
  std::fill(many.begin() + 20, many.end(), 0.02);
  many.back() = 0.5;
  for (const Row& row : {
           Row{{0.25}, 0.5, 2.0 / 3, 1},
           Row{{0.1, 0.2, 0.6}, 0.5, 0.4215277777777778, 0.9916666666666667},
           Row{{0, 0, 0, 0.5}, 0.4, 0.2576, 0.9984},
           Row{{0.125, 0.125, 0.125, 0.75, 0.75, 1}, 0.9, 0.0011600499791753424, 0.9999761166180758},
           Row{{0, 0, 0, 0, 0.02, 0.02, 0.5}, 0.3, 0.16972222222222225, 0.9982222222222222},
           Row{{1, 1, 1}, 0.9, 1, 0.729},
           Row{{0.3, 0.3, 0.3}, 0.3, 1, 1},
           Row{{0.6, 0.7, 0.9}, 0.3, 1, 0.07142857142857142},
           Row{{0.6, 0.6, 0.6, 0.7, 0.9, 1}, 0.25, 1, 0.001794096303644915},
           Row{many, 0.1, 0.048364144043612396, 0.9996396344291323},
       }) {
    CAPTURE(row.tau);
    CAPTURE(row.values.size());
    const MeanTest test = gaffke_mean(once(row.values), row.tau, {}, 0.05);
    CHECK(test.p_low == doctest::Approx(row.p_low).epsilon(1e-9));
    CHECK(test.p_high == doctest::Approx(row.p_high).epsilon(1e-9));
    // The mirror image has the other direction.
    std::vector<double> mirrored;
    for (const double value : row.values) mirrored.push_back(1 - value);
    CHECK(gaffke_p_value(once(mirrored), 1 - row.tau, {}, true) == doctest::Approx(row.p_low).epsilon(1e-9));
    CHECK(gaffke_p_value(once(mirrored), 1 - row.tau, {}, false) ==
          doctest::Approx(row.p_high).epsilon(1e-9));
  }
}

TEST_CASE("values at the two ends of the range have the limits of Clopper and Pearson") {
  struct Row {
    std::uint64_t ones, count;
    double tau;
  };
  for (const auto& [ones, count, tau] :
       {Row{0, 1, 0.5}, Row{0, 150, 0.02}, Row{0, 200'000, 1.8e-5}, Row{1, 300, 0.02}, Row{3, 40, 0.2},
        Row{40, 40, 0.9}, Row{17, 5'000, 0.006}, Row{2'000, 200'000, 0.0105}, Row{2'000, 200'000, 0.0095}}) {
    CAPTURE(ones);
    CAPTURE(count);
    const MeanTest test = gaffke_mean(ones_of(ones, count), tau, {}, 0.05);
    CHECK(test.p_low == doctest::Approx(binomial_at_most(ones, count, tau)).epsilon(1e-8));
    CHECK(test.p_high == doctest::Approx(binomial_at_least(ones, count, tau)).epsilon(1e-8));
    CHECK(*test.upper == doctest::Approx(clopper_pearson_upper(ones, count, 0.05)).epsilon(1e-7));
    CHECK(*test.lower == doctest::Approx(clopper_pearson_lower(ones, count, 0.05)).epsilon(1e-7));
  }
}

TEST_CASE("a share is proven by as many sequences without an event as Clopper and Pearson's limit takes") {
  const MeanTest few = gaffke_mean(ones_of(0, 148), 0.02, {}, 0.05);
  CHECK(few.p_low > 0.05);
  CHECK(few.details.at("least_clusters") == 149);
  CHECK(*few.lower == 0);
  CHECK(gaffke_mean(ones_of(0, 149), 0.02, {}, 0.05).p_low <= 0.05);
}

TEST_CASE("Gaffke's limits agree with the p-values, and the p-value alone is that of the test") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const auto clusters = skewed(20 + 15 * seed, 0.1, seed, seed % 10);
    for (const double tau : {-0.1, 0.0, 0.001, 0.02, 0.05, 0.09, 0.1, 0.11, 0.15, 0.3, 0.9, 1.0, 1.2}) {
      CAPTURE(tau);
      const MeanTest test = gaffke_mean(clusters, tau, {}, 0.05);
      CHECK((test.p_low <= 0.05) == (*test.upper <= tau));
      CHECK((test.p_high <= 0.05) == (*test.lower >= tau));
      CHECK(*test.lower <= test.estimate);
      CHECK(test.estimate <= *test.upper);
      CHECK(gaffke_p_value(clusters, tau, {}, false) == test.p_low);
      CHECK(gaffke_p_value(clusters, tau, {}, true) == test.p_high);
    }
    const MeanTest test = gaffke_mean(clusters, 0.1, {}, 0.05);
    CHECK(gaffke_p_value(clusters, *test.upper, {}, false) == doctest::Approx(0.05).epsilon(1e-6));
    CHECK(gaffke_p_value(clusters, *test.lower, {}, true) == doctest::Approx(0.05).epsilon(1e-6));
  }
}

TEST_CASE("Gaffke's p-value is the share of drawn weights that reach the limit") {
  constexpr int kDraws = 40'000;
  Random random(11);
  struct Row {
    std::size_t count;
    std::uint64_t zeros;
    double tau;
  };
  for (const auto& [count, zeros, tau] : {Row{30, 0, 0.15}, Row{60, 9, 0.06}, Row{12, 5, 0.2}}) {
    const auto clusters = skewed(count, 0.1, 3, zeros);
    const double p_low = gaffke_p_value(clusters, tau, {}, false);
    const double share = drawn_share(clusters, 1, tau, kDraws, random);
    CHECK(std::abs(share - p_low) <= 4 * std::sqrt(p_low * (1 - p_low) / kDraws));
    const double p_high = gaffke_p_value(clusters, tau / 2, {}, true);
    const double below = 1 - drawn_share(clusters, 0, tau / 2, kDraws, random);
    CHECK(std::abs(below - p_high) <= 4 * std::sqrt(p_high * (1 - p_high) / kDraws));
  }
}

TEST_CASE("ties are what values that hardly differ are, and p-values fall as the limit rises") {
  std::vector<ClusterSum> tied, apart;
  for (int i = 0; i < 90; ++i) {
    const double value = 0.01 * (i % 3);
    tied.push_back({1, value});
    apart.push_back({1, value + 1e-13 * i});
  }
  double before = 1;
  for (double tau = 0.005; tau < 0.2; tau *= 1.1) {
    const double p = gaffke_p_value(tied, tau, {}, false);
    CHECK(p == doctest::Approx(gaffke_p_value(apart, tau, {}, false)).epsilon(1e-8));
    CHECK(p <= before);
    before = p;
  }
}

TEST_CASE("the range scales the values and each cluster counts once") {
  const auto clusters = skewed(80, 0.1, 4);
  std::vector<ClusterSum> shifted;
  for (const ClusterSum& c : clusters) shifted.push_back({4, 4 * (5 * c.sum - 2)});
  const MeanTest plain = gaffke_mean(clusters, 0.15, {}, 0.05);
  const MeanTest scaled = gaffke_mean(shifted, 5 * 0.15 - 2, {-2, 3, 1}, 0.05);
  CHECK(scaled.p_low == doctest::Approx(plain.p_low).epsilon(1e-9));
  CHECK(scaled.p_high == doctest::Approx(plain.p_high).epsilon(1e-9));
  CHECK(*scaled.upper == doctest::Approx(5 * *plain.upper - 2).epsilon(1e-7));
  CHECK(*scaled.lower == doctest::Approx(5 * *plain.lower - 2).epsilon(1e-7));
  CHECK(scaled.estimate == doctest::Approx(5 * plain.estimate - 2));
  CHECK(scaled.n == 320);
  CHECK(scaled.clusters == 80);
  CHECK(scaled.approximate);
  CHECK(scaled.method == "Gaffke's bound (validity conjectured)");
}

TEST_CASE("far from the limit Gaffke's p-value is tiny or 1, and large samples are no trouble") {
  const auto many = skewed(200'000, 0.05, 8);
  CHECK(gaffke_p_value(many, 0.051, {}, false) < 1e-12);
  CHECK(gaffke_p_value(many, 0.049, {}, false) == doctest::Approx(1));
  CHECK(gaffke_p_value(many, 0.0502, {}, false) > 1e-4);
  CHECK(gaffke_p_value(many, 0.9, {}, false) < 1e-300);
  CHECK(gaffke_p_value(many, 1e-9, {}, true) < 1e-300);
}

TEST_CASE("the ends of the range need no data, and without a number nothing is decided") {
  CHECK(gaffke_mean(ones_of(0, 10), 0, {}, 0.05).p_low == 1);
  CHECK(gaffke_mean(ones_of(1, 10), 0, {}, 0.05).p_high == 0);
  CHECK(*gaffke_mean(ones_of(10, 10), 0.5, {}, 0.05).upper == 1);
  const MeanTest empty = gaffke_mean(std::vector<ClusterSum>(3, ClusterSum{}), 0.5, {}, 0.05);
  CHECK(empty.undecidable == "there are no rows");
  CHECK(empty.p_low == 1);
  CHECK_FALSE(empty.upper.has_value());
  const MeanTest odd = gaffke_mean(once({0.1, std::nan(""), 0.2}), 0.5, {}, 0.05);
  CHECK(odd.undecidable == "the mean of one sequence is not a number");
  CHECK(gaffke_p_value(once({std::nan("")}), 0.5, {}, true) == 1);
}
