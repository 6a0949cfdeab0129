#include "gpu/support/support_bets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

using namespace driftgate::gpu;

namespace {

/// A row of K_train's and K_inf's logits.
struct Logits {
  std::vector<float> train, inf;

  [[nodiscard]] SupportRow row(std::int64_t token) const {
    return {{std::as_bytes(std::span(train)).data(), DType::f32},
            {std::as_bytes(std::span(inf)).data(), DType::f32},
            token};
  }
  [[nodiscard]] std::vector<double> q(double temperature = 1) const {
    std::vector<double> out;
    for (const float y : inf) out.push_back(std::exp(y / temperature));
    const double sum = std::accumulate(out.begin(), out.end(), 0.0);
    for (double& value : out) value /= sum;
    return out;
  }
};

Logits random_logits(std::mt19937_64& random, std::size_t vocabulary, double spread, double drift) {
  std::normal_distribution<double> normal;
  Logits out;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    const double y = spread * normal(random);
    out.inf.push_back(static_cast<float>(y));
    out.train.push_back(static_cast<float>(y + drift * normal(random)));
  }
  return out;
}

/// All logarithms of wealth of one test.
std::vector<double> wealth(const SupportSums& sums) {
  std::vector<double> out(sums.preference.begin(), sums.preference.end());
  out.insert(out.end(), sums.filters.begin(), sums.filters.end());
  out.push_back(sums.untaken);
  out.push_back(sums.ranges);
  return out;
}

std::int64_t draw(std::mt19937_64& random, const std::vector<double>& weights) {
  return std::discrete_distribution<std::int64_t>(weights.begin(), weights.end())(random);
}

}  // namespace

TEST_CASE("whatever was seen before, no bet is expected to win on a token that was sampled from q") {
  std::mt19937_64 random(3);
  for (const double temperature : {1.0, 0.5}) {
    CAPTURE(temperature);
    for (const int before : {0, 1, 40}) {
      CAPTURE(before);
      std::vector<Logits> past;
      std::vector<std::int64_t> tokens;
      for (int i = 0; i < before; ++i) {
        past.push_back(random_logits(random, 21, 2, 0.5));
        tokens.push_back(static_cast<std::int64_t>(random() % 21));
      }
      const Logits now = random_logits(random, 21, 2, 0.5);
      const std::vector<double> q = now.q(temperature);
      std::vector<double> expected(wealth({}).size());
      for (std::size_t token = 0; token < q.size(); ++token) {
        SupportBets bets(21, temperature, 1);
        SupportSums ignored, sums;
        for (std::size_t i = 0; i < past.size(); ++i) bets.add(past[i].row(tokens[i]), ignored);
        bets.add(now.row(static_cast<std::int64_t>(token)), sums);
        REQUIRE(sums.rows == 1);
        const std::vector<double> logs = wealth(sums);
        for (std::size_t i = 0; i < logs.size(); ++i) expected[i] += q[token] * std::exp(logs[i]);
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(expected[i] == doctest::Approx(1).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("a filter that a sampler has wins, and the mass of p outside of it is told") {
  std::mt19937_64 random(5);
  SupportBets bets(100, 1, 1);
  SupportSums sums;
  double outside = 0;
  for (int i = 0; i < 400; ++i) {
    const Logits logits = random_logits(random, 100, 1, 0.01);
    std::vector<double> q = logits.q();
    std::vector<double> sorted = q;
    std::ranges::sort(sorted, std::greater<>());
    double out = 0;
    for (double& value : q) {
      if (value >= sorted[49]) continue;
      out += value;
      value = 0;
    }
    outside += out;
    bets.add(logits.row(draw(random, q)), sums);
  }
  const auto best = static_cast<std::size_t>(std::ranges::max_element(sums.filters) - sums.filters.begin());
  CHECK(best % kFilters == kFilterTopP.size() + 5 - 1);  // top_k = 50
  CHECK(sums.filters[best] > 20);
  CHECK(sums.filters_p[best % kFilters] == doctest::Approx(outside).epsilon(0.1));
}

TEST_CASE("a filter that is there for one sequence in four wins by bets that end and begin again") {
  std::mt19937_64 random(5);
  SupportBets bets(100, 1, 1);
  SupportSums sums;
  for (int i = 0; i < 2'000; ++i) {
    const Logits logits = random_logits(random, 100, 1, 0.01);
    std::vector<double> q = logits.q(), sorted = q;
    std::ranges::sort(sorted, std::greater<>());
    for (double& value : q) {
      if (i / 100 % 4 == 3 && value < sorted[19]) value = 0;
    }
    bets.add(logits.row(draw(random, q)), sums);
  }
  CHECK(sums.filters[kFilters + kFilterTopP.size() + 4 - 1] > 20);  // top_k = 20, now and then
  CHECK(sums.filters[kFilterTopP.size() + 4 - 1] < sums.filters[kFilters + kFilterTopP.size() + 4 - 1]);
}

TEST_CASE("tokens that are never taken win once they should have been taken") {
  std::mt19937_64 random(6);
  SupportBets bets(50, 1, 1);
  SupportSums sums;
  double missing = 0;
  for (int i = 0; i < 500; ++i) {
    Logits logits = random_logits(random, 50, 0.3, 0.01);
    std::vector<double> q = logits.q();
    missing += q[7] + q[30];
    q[7] = q[30] = 0;
    bets.add(logits.row(draw(random, q)), sums);
  }
  CHECK(sums.untaken > 8);
  CHECK(sums.untaken_p == doctest::Approx(missing).epsilon(0.35));  // the first rows do not know which
}

TEST_CASE("a range of rare tokens wins of which none is taken") {
  std::mt19937_64 random(12);
  SupportBets bets(2'000, 1, 1);
  SupportSums sums;
  double missing = 0;
  for (int i = 0; i < 1'000; ++i) {
    Logits logits = random_logits(random, 2'000, 0.5, 0.01);
    for (std::size_t v = 1'500; v < 2'000; ++v) logits.inf[v] -= 3, logits.train[v] -= 3;
    std::vector<double> q = logits.q();
    for (std::size_t v = 1'500; v < 2'000; ++v) missing += std::exchange(q[v], 0);
    bets.add(logits.row(draw(random, q)), sums);
  }
  CHECK(sums.ranges > 5);
  CHECK(sums.ranges > sums.untaken + 3);
  CHECK(sums.ranges_p == doctest::Approx(missing).epsilon(0.3));
}

TEST_CASE("tokens that K_train prefers win where they are missing") {
  std::mt19937_64 random(7);
  SupportBets bets(200, 1, 1);
  SupportSums sums;
  for (int i = 0; i < 300; ++i) {
    const Logits logits = random_logits(random, 200, 1, 0.3);
    std::vector<double> q = logits.q();
    for (std::size_t v = 0; v < q.size(); ++v) {
      if (logits.train[v] > logits.inf[v] + 0.5F) q[v] = 0;  // a ratio of about 1.6
    }
    bets.add(logits.row(draw(random, q)), sums);
  }
  CHECK(std::ranges::max(sums.preference) > 10);
}

TEST_CASE("the mass of p where q underflows is a sum") {
  Logits logits{{0, 0, 0, 0}, {0, 0, -60, -100}};
  SupportSums sums;
  SupportBets(4, 1, 1).add(logits.row(0), sums);
  CHECK(sums.p_lost == doctest::Approx(0.25));  // e^-60 does not underflow
}

TEST_CASE("masked tokens have no part in a row, and rows that cannot be tested are left out") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  SupportSums sums;
  SupportBets bets(5, 1, 1);
  bets.add(Logits{{0, 1, -kInfinity, 2, 0}, {0, 1, -kInfinity, 2, 0}}.row(1), sums);
  CHECK(sums.rows == 1);
  for (const double log : wealth(sums)) CHECK(std::isfinite(log));
  CHECK(sums.p_lost == 0);
  bets.add(Logits{{0, 1, 0, 2, 0}, {0, 1, -kInfinity, 2, 0}}.row(1), sums);
  bets.add(Logits{{0, 1, 0, 2, 0}, {0, 1, std::nanf(""), 2, 0}}.row(1), sums);
  bets.add(Logits{{0, 1, 0, kInfinity, 0}, {0, 1, 0, 2, 0}}.row(1), sums);
  CHECK(sums.rows == 1);
}

TEST_CASE(
    "sums do not depend on threads or instruction sets, and 16-bit logits are read as they are stored") {
  const auto sums_of = [](std::uint32_t threads, const BetsKernel& kernel) {
    std::mt19937_64 random(8);
    SupportBets bets(10'003, 0.7, threads, kernel);
    SupportSums sums;
    for (int i = 0; i < 5; ++i) bets.add(random_logits(random, 10'003, 3, 0.1).row(i), sums);
    return sums;
  };
  const SupportSums alone = sums_of(1, best_bets());
  for (const SupportSums& other : {sums_of(3, best_bets()), sums_of(1, kPortableBets)}) {
    CHECK(wealth(other) == wealth(alone));
    CHECK(other.p_lost == alone.p_lost);
  }

  const std::array<std::uint16_t, 3> bf16{0x3f80, 0x4000, 0xbf80};  // 1, 2, -1
  const std::array<float, 3> f32{1, 2, -1};
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)).data(); };
  SupportSums narrow, wide;
  SupportBets(3, 1, 1).add({{bytes(bf16), DType::bf16}, {bytes(bf16), DType::bf16}, 2}, narrow);
  SupportBets(3, 1, 1).add({{bytes(f32), DType::f32}, {bytes(f32), DType::f32}, 2}, wide);
  CHECK(wealth(narrow) == wealth(wide));
}
