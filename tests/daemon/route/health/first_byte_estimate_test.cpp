#include "daemon/route/health/first_byte_estimate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

using namespace driftgate::route;

TEST_CASE("nothing is estimated from few answers") {
  FirstByteEstimate estimate;
  for (std::uint32_t i = 0; i + 1 < FirstByteEstimate::kLeastAnswers; ++i) estimate.add(10);
  CHECK_FALSE(estimate.p99_ms().has_value());
  estimate.add(10);
  REQUIRE(estimate.p99_ms().has_value());
  CHECK(*estimate.p99_ms() >= 10);
  CHECK(*estimate.p99_ms() <= 11);
}

TEST_CASE("the percentile is that of the answers, at most a tenth too large and never too small") {
  const std::uint64_t seed = 17;
  std::mt19937_64 random(seed);
  for (const double scale : {5.0, 80.0, 1'500.0}) {
    CAPTURE(scale);
    std::exponential_distribution<double> draw(1 / scale);
    FirstByteEstimate estimate;
    std::vector<double> values;
    for (int i = 0; i < 1'008; ++i) {  // a multiple of kRefreshEvery below kForgetEvery
      values.push_back(1 + draw(random));
      estimate.add(values.back());
    }
    std::ranges::sort(values);
    const double exact = values[static_cast<std::size_t>(std::ceil(0.99 * 1'008)) - 1];
    CHECK(*estimate.p99_ms() >= exact);
    CHECK(*estimate.p99_ms() <= 1.1 * exact);
  }
}

TEST_CASE("what an engine did long ago is forgotten") {
  FirstByteEstimate estimate;
  for (int i = 0; i < 2'000; ++i) estimate.add(5'000);
  CHECK(*estimate.p99_ms() >= 5'000);
  std::uint32_t answers = 0;
  while (*estimate.p99_ms() >= 5'000 && answers < 20'000) {
    estimate.add(20);
    ++answers;
  }
  CHECK(*estimate.p99_ms() < 25);
  CHECK(answers > FirstByteEstimate::kForgetEvery);
  CHECK(answers <= 8 * FirstByteEstimate::kForgetEvery);
}

TEST_CASE("values beyond the bins count in the first and the last") {
  FirstByteEstimate low, high;
  for (std::uint32_t i = 0; i < FirstByteEstimate::kLeastAnswers; ++i) {
    low.add(-3);
    high.add(1e12);
  }
  CHECK(*low.p99_ms() == 1);
  CHECK(*high.p99_ms() > 131'000);
}

TEST_CASE("answers that several threads count at once are all counted") {
  FirstByteEstimate estimate;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&estimate, t] {
      for (int i = 0; i < 250; ++i) estimate.add(t == 0 && i < 8 ? 900 : 3);
    });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 16; ++i) estimate.add(3);
  // 8 of 1,008 are less than one in a hundred; with 16 more they are not.
  CHECK(*estimate.p99_ms() < 4);
  estimate.add(900, 16);
  CHECK(*estimate.p99_ms() >= 900);
}

TEST_CASE("the limit is twice the percentile and the floor, and never above the request's own") {
  CHECK(first_byte_limit_ms(std::nullopt, 500, 60'000) == 60'000);
  CHECK(first_byte_limit_ms(40, 500, 60'000) == 580);
  CHECK(first_byte_limit_ms(40.2, 0, 60'000) == 81);
  CHECK(first_byte_limit_ms(29'750, 500, 60'000) == 60'000);
  CHECK(first_byte_limit_ms(1e9, 500, 60'000) == 60'000);
}
