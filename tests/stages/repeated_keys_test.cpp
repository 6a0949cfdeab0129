#include "stages/canary/repeated_keys.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

double normal(Random& random) {
  return normal_quantile(std::clamp(random.uniform(), 1e-16, 1 - 1e-16));
}

/// `count` users, each of whom gives `each` values whose logarithms have this standard deviation among users and 0.5
/// within one.
struct Sample {
  RepeatedKeys repeated;
  QuantileSequence quantiles;
  double sum = 0;

  Sample(int count, int each, double among, std::uint64_t seed) {
    Random random(mix64(seed));
    std::vector<double> own;
    for (int user = 0; user < count; ++user) own.push_back(among * normal(random));
    for (int turn = 0; turn < each; ++turn) {
      for (int user = 0; user < count; ++user) {
        const double value = 100 * std::exp(own[static_cast<std::size_t>(user)] + 0.5 * normal(random));
        quantiles.add(value);
        repeated.observe(mix64(static_cast<std::uint64_t>(user) ^ mix64(seed)), QuantileSequence::bin_of(value));
        sum += std::log(value);
      }
    }
  }
  [[nodiscard]] double of_p95() const {
    return repeated.inflation_of_share(quantiles.bin_of_quantile(0.95), 0.05);
  }
};

}  // namespace

TEST_CASE("values of distinct keys, and values without keys, are as many as they are") {
  const Sample distinct(3'000, 1, 0.5, 1);
  CHECK(distinct.of_p95() == 1);
  CHECK(distinct.repeated.inflation_of_mean() == 1);
  RepeatedKeys keyless;
  for (int i = 0; i < 100; ++i) keyless.observe_keyless();
  CHECK(keyless.inflation_of_mean() == 1);
  CHECK(RepeatedKeys{}.inflation_of_share(0, 0.05) == 1);
}

TEST_CASE("users who are alike say with each value nearly as much as another user would") {
  const Sample alike(1'000, 8, 0, 2);
  CHECK(alike.of_p95() < 1.3);
  CHECK(alike.repeated.inflation_of_mean() < 1.3);
}

TEST_CASE("the inflation is that of the variance, where users differ lastingly") {
  // The variance of the mean logarithm is (0.5² + 8·0.5²)/8 a user, where independent values have (0.5² + 0.5²)/8.
  const Sample lasting(2'000, 8, 0.5, 3);
  CHECK(lasting.repeated.inflation_of_mean() == doctest::Approx(4.5).epsilon(0.1));
  // Of a share, held against how much it varies from sample to sample.
  constexpr int kSamples = 200, kUsers = 200;
  std::vector<double> shares;
  double told = 0;
  const double edge = 100 * std::exp(std::sqrt(0.5) * normal_quantile(0.95));
  for (int sample = 0; sample < kSamples; ++sample) {
    Random random(mix64(1'000 + static_cast<std::uint64_t>(sample)));
    const Sample drawn(kUsers, 8, 0.5, 7'000 + static_cast<std::uint64_t>(sample));
    told += drawn.of_p95() / kSamples;
    int above = 0;
    for (int user = 0; user < kUsers; ++user) {
      const double own = 0.5 * normal(random);
      for (int turn = 0; turn < 8; ++turn) above += 100 * std::exp(own + 0.5 * normal(random)) > edge ? 1 : 0;
    }
    shares.push_back(above / (8.0 * kUsers));
  }
  double variance = 0;
  for (const double share : shares) variance += (share - 0.05) * (share - 0.05) / kSamples;
  const double inflation = variance / (0.05 * 0.95 / (8 * kUsers));
  CHECK(told == doctest::Approx(inflation).epsilon(0.3));  // the variance of 200 shares is known to a tenth
}

TEST_CASE("while few keys have returned, their values are taken for one") {
  RepeatedKeys repeated;
  Random random(5);
  for (std::uint64_t key = 0; key < 100; ++key) repeated.observe(key, static_cast<std::int32_t>(random.below(50)));
  for (std::uint64_t key = 0; key < 2; ++key) repeated.observe(key, static_cast<std::int32_t>(random.below(50)));
  // 102 values of 100 keys, two of which gave two: m = (98 + 2·4)/102.
  CHECK(repeated.inflation_of_mean() == doctest::Approx(106.0 / 102).epsilon(0.005));
}

TEST_CASE("more keys than are tracked are told by a part of them, and the state survives its JSON") {
  Sample many(10'000, 2, 0.5, 6);
  CHECK(many.repeated.inflation_of_mean() == doctest::Approx(1.5).epsilon(0.1));
  const nlohmann::json json = many.repeated.to_json();
  CHECK(json.at(0).size() <= RepeatedKeys::kMostTracked);
  RepeatedKeys read = RepeatedKeys::from_json(json);
  CHECK(read.to_json() == json);
  read.observe(77, 3);
  many.repeated.observe(77, 3);
  CHECK(read.to_json() == many.repeated.to_json());
  CHECK_THROWS_AS((void)RepeatedKeys::from_json(nlohmann::json::parse("[[[1]]]")), nlohmann::json::exception);
}
