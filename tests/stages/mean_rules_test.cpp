#include "stages/clauses/mean_rules.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "stages/statistics/random.hpp"

using namespace driftgate;
using namespace driftgate::stages;

namespace {

constexpr MeanRules kExact{};
constexpr MeanRules kApproximate{.means = schema::Means::approximate};
const std::optional<std::pair<double, double>> kShare = std::pair(0.0, 1.0);

/// Means of sequences that scatter a little around `mean`.
std::vector<ClusterSum> even(std::size_t count, double mean) {
  Random random(17);
  std::vector<ClusterSum> clusters;
  for (std::size_t i = 0; i < count; ++i) clusters.push_back({1, mean * (0.75 + 0.5 * random.uniform())});
  return clusters;
}

}  // namespace

TEST_CASE("exact means are bet on at every n and never resampled") {
  for (const std::size_t n : {20U, 199U, 200U, 1'000U}) {
    CAPTURE(n);
    const MeanTest test = test_mean(even(n, 0.01), {0.02, kShare}, kExact, 0.05, 1);
    CHECK(test.method == "betting, cap 0.99");
    CHECK_FALSE(test.approximate);
    CHECK(test.n == n);
  }
  // One sequence in a hundred could be wholly wrong, and 300 without any such do not show that none is.
  CHECK(test_mean(even(300, 0.01), {0.02, kShare}, kExact, 0.05, 1).p_low > 0.05);
  CHECK(test_mean(even(1'000, 0.01), {0.02, kShare}, kExact, 0.05, 1).p_low <= 0.05);
}

TEST_CASE("kernels that agree in every bit are not proven by few sequences") {
  // ln(1/0.05)/ln(1 + 0.99·0.02/0.98) = 149.8
  const auto passes = [](std::size_t n) {
    return test_mean(std::vector<ClusterSum>(n, {1, 0}), {0.02, kShare}, kExact, 0.05, 1).p_low <= 0.05;
  };
  CHECK_FALSE(passes(149));
  CHECK(passes(150));
}

TEST_CASE("exactly, values without a known end and tokens without a known length are undecided, and why") {
  const MeanTest unbounded = test_mean(even(400, 0.01), {0.02, std::nullopt}, kExact, 0.05, 1);
  CHECK(unbounded.undecidable.find("needs a clip or confidence.means: approximate") != std::string::npos);
  CHECK(unbounded.estimate == doctest::Approx(0.01).epsilon(0.05));
  const std::vector<ClusterSum> rows(600, {8, 0});
  const MeanQuestion by_token{.tau = 0.02, .range = kShare, .once = false};
  CHECK(test_mean(rows, by_token, kExact, 0.05, 1).undecidable.find("assumptions.max_tokens") !=
        std::string::npos);
  CHECK(test_mean(rows, by_token, {.max_tokens = 8}, 0.05, 1).p_low <= 0.05);
  CHECK(test_mean(rows, by_token, {.max_tokens = 64}, 0.05, 1).p_low > 0.05);
  CHECK_FALSE(test_mean(rows, by_token, {.max_tokens = 7}, 0.05, 1).undecidable.empty());
}

TEST_CASE("a cluster of several sequences counts once, whatever its size") {
  std::vector<ClusterSum> clusters = even(199, 0.01);
  clusters.push_back({5'000, 5'000 * 0.9});
  const MeanTest test = test_mean(clusters, {0.05, kShare}, kExact, 0.05, 1);
  CHECK(test.estimate == doctest::Approx((199 * 0.01 + 0.9) / 200).epsilon(0.02));
  CHECK(test.n == 5'199);
  CHECK(test.clusters == 200);
}

TEST_CASE(
    "approximate means of a known range are decided by Gaffke's bound at every n, with the exact limits "
    "beside") {
  for (const std::size_t n : {20U, 50U, 300U}) {
    CAPTURE(n);
    const MeanTest test = test_mean(even(n, 0.01), {0.02, kShare}, kApproximate, 0.05, 1);
    CHECK(test.method == "Gaffke's bound (validity conjectured)");
    CHECK(test.approximate);
    CHECK(test.p_low == gaffke_p_value(even(n, 0.01), 0.02, {}, false));
    CHECK((test.p_low <= 0.05) == (n == 300));
    const MeanTest exact = test_mean(even(n, 0.01), {0.02, kShare}, kExact, 0.05, 1);
    REQUIRE(test.details.contains("exact_upper"));
    CHECK(test.details.at("exact_upper") == *exact.upper);
    CHECK(test.details.at("exact_lower") == *exact.lower);
    CHECK(exact.p_low > 0.05);
    // Nothing is drawn.
    CHECK(test_mean(even(n, 0.01), {0.02, kShare}, kApproximate, 0.05, 2).p_low == test.p_low);
  }
  // The clip is the end of the range at which a value is added.
  CHECK(test_mean(even(100, 0.01), {0.02, std::pair(0.0, 0.25)}, kApproximate, 0.05, 1).p_low <= 0.05);
  CHECK(test_mean(even(100, 0.01), {0.02, kShare}, kApproximate, 0.05, 1).p_low > 0.05);
}

TEST_CASE("approximate means without a known range, and of tokens, are resampled from 50 sequences on") {
  const MeanTest unbounded = test_mean(even(50, 0.01), {0.02, std::nullopt}, kApproximate, 0.05, 1);
  CHECK(unbounded.method == "cluster bootstrap-t");
  CHECK(unbounded.approximate);
  CHECK(unbounded.p_low <= 0.05);
  CHECK_FALSE(unbounded.details.contains("exact_upper"));
  CHECK(!test_mean(even(49, 0.01), {0.02, std::nullopt}, kApproximate, 0.05, 1).undecidable.empty());
  const MeanQuestion by_token{.tau = 0.2, .range = kShare, .once = false};
  const MeanRules lengths{.means = schema::Means::approximate, .max_tokens = 1};
  const MeanTest tokens = test_mean(even(50, 0.01), by_token, lengths, 0.05, 1);
  CHECK(tokens.method == "cluster bootstrap-t");
  CHECK(tokens.details.contains("exact_upper"));
  const MeanTest fewer = test_mean(even(49, 0.01), by_token, lengths, 0.05, 1);
  CHECK(fewer.method == "betting, cap 0.99");
  CHECK_FALSE(fewer.approximate);
  CHECK(fewer.p_low <= 0.05);
  CHECK(test_mean(even(50, 0.01), by_token, kApproximate, 0.05, 1).method == "cluster bootstrap-t");
}

TEST_CASE("resampling is undecided where one sequence makes a tenth of the sum") {
  std::vector<ClusterSum> clusters = even(100, 0.01);
  clusters[40].sum = 0.5;
  const MeanTest test = test_mean(clusters, {0.05, std::nullopt}, kApproximate, 0.05, 1);
  CHECK(test.undecidable == "one sequence alone makes over 10% of the sum");
  CHECK(test_mean(clusters, {0.05, kShare}, kApproximate, 0.05, 1).undecidable.empty());
}

TEST_CASE("events of which hardly any was seen are not left to a resampling") {
  const std::vector<ClusterSum> none(100, {1, 0});
  const MeanRules lengths{.means = schema::Means::approximate, .max_tokens = 1};
  const MeanQuestion flips{.tau = 0.001, .range = kShare, .once = false, .counts_events = true};
  CHECK(test_mean(none, flips, lengths, 0.05, 1).p_low > 0.05);
  CHECK_FALSE(test_mean(none, flips, lengths, 0.05, 1).approximate);
  const MeanQuestion drift{.tau = 0.001, .range = kShare, .once = false};
  CHECK(test_mean(none, drift, lengths, 0.05, 1).p_low <= 0.05);
  // Each sequence once, (1 − 0.001)^100 is no proof, whatever is counted.
  for (const bool events : {false, true}) {
    const MeanQuestion once{.tau = 0.001, .range = kShare, .once = true, .counts_events = events};
    CHECK(test_mean(none, once, kApproximate, 0.05, 1).p_low == doctest::Approx(std::pow(0.999, 100)));
  }
}

TEST_CASE("a cap makes an unbounded mean provable, and a bounded one from fewer sequences") {
  CHECK(clipped_range(std::nullopt, 0, 0.25) == std::pair(0.0, 0.25));
  CHECK(clipped_range(kShare, 0, 0.25) == std::pair(0.0, 0.25));
  CHECK(clipped_range(kShare, 0, std::nullopt) == std::pair(0.0, 1.0));
  CHECK_FALSE(clipped_range(std::nullopt, -HUGE_VAL, 0.25).has_value());
  CHECK(test_mean(even(120, 0.01), {0.02, std::pair(0.0, 0.25)}, kExact, 0.0304, 1).p_low <= 0.0304);
  CHECK(test_mean(even(120, 0.01), {0.02, kShare}, kExact, 0.0304, 1).p_low > 0.0304);
}

TEST_CASE("advice says what would prove a mean that the exact method left open") {
  // At 300 sequences Gaffke's bound passes and betting does not yet.
  const auto clusters = even(300, 0.01);
  const auto advice = advise_mean(clusters, {0.02, kShare}, kExact, true, 0.05, 1);
  REQUIRE(advice.has_value());
  CHECK(advice->approximate);
  REQUIRE(advice->clusters.has_value());
  CHECK(*advice->clusters > 300);
  CHECK(*advice->clusters < 1'000);
  CHECK(advice->clip == 0.25);
  // So many sequences do prove it.
  CHECK(test_mean(even(*advice->clusters * 11 / 10, 0.01), {0.02, kShare}, kExact, 0.05, 1).p_low <= 0.05);
  // At 120 a clip alone would.
  const auto fewer = advise_mean(even(120, 0.01), {0.02, kShare}, kExact, true, 0.05, 1);
  REQUIRE(fewer.has_value());
  CHECK_FALSE(fewer->approximate);
  CHECK(fewer->clip == 0.25);
  CHECK(*fewer->clusters > 200);
  // At the limit nothing would, nor with very few.
  CHECK_FALSE(advise_mean(even(300, 0.02), {0.02, kShare}, kExact, true, 0.05, 1).has_value());
  CHECK_FALSE(advise_mean(even(49, 0.01), {0.02, kShare}, kExact, true, 0.05, 1).has_value());
  // With a clip there is none to advise.
  const MeanRules clipped{.clip = 0.5};
  CHECK_FALSE(
      advise_mean(even(150, 0.01), {0.02, std::pair(0.0, 0.5)}, clipped, true, 0.05, 1)->clip.has_value());
  // A mean of at least 0.98 is the mirror image.
  std::vector<ClusterSum> high = clusters;
  for (ClusterSum& c : high) c.sum = 1 - c.sum;
  const auto mirrored = advise_mean(high, {0.98, kShare}, kExact, false, 0.05, 1);
  REQUIRE(mirrored.has_value());
  CHECK(mirrored->clusters.has_value());
  CHECK_FALSE(mirrored->clip.has_value());
}
