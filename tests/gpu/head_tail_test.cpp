#include <doctest/doctest.h>

#include <cmath>

#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20260202;

double value(const driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

/// Total variation by its definition.
long double total_variation(const Pair& pair) {
  std::vector<long double> z, y;
  for (std::size_t v = 0; v < pair.train.size(); ++v) {
    if (std::isinf(pair.train[v])) continue;
    z.push_back(static_cast<long double>(pair.train[v]) / pair.temperature);
    y.push_back(static_cast<long double>(pair.inf[v]) / pair.temperature);
  }
  const long double lse_z = log_sum_exp(z), lse_y = log_sum_exp(y);
  long double sum = 0;
  for (std::size_t v = 0; v < z.size(); ++v) sum += fabsl(expl(z[v] - lse_z) - expl(y[v] - lse_y));
  return sum / 2;
}

}  // namespace

TEST_CASE("the head-tail bound is never below tv and never above the full-span bound or 1") {
  constexpr int kCases = 20'000;
  // The definition cancels: p and q of long double are good to about 1e-16 after logits of hundreds.
  constexpr long double kBruteForce = 1e-15L;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kCases; ++i) {
    const Case test = random_case(random, 600);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    const auto all = kernels();
    const cpu::TileKernel& kernel = *all[static_cast<std::size_t>(i) % all.size()];
    CAPTURE(kernel.name);
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const driftgate_row row = evaluate(kernel, test);
    REQUIRE(row.head_tail_tv >= static_cast<double>(total_variation(test.pair) - kBruteForce));
    REQUIRE(row.head_tail_tv <= std::tanh(value(row, Metric::logit_span) / 4));
    REQUIRE(row.head_tail_tv <= 1.0);
    REQUIRE(row.top_train >= std::exp(-value(row, Metric::entropy_train)) * (1 - 1e-5));
    REQUIRE(row.top_train <= 1.0);
    REQUIRE(row.top_inf <= 1.0);
  }
}

TEST_CASE("tokens of no mass set the full span and leave the head-tail bound where it was") {
  std::mt19937_64 random(kSeed + 1);
  std::normal_distribution<double> normal;
  for (const cpu::TileKernel* kernel : kernels()) {
    std::vector<double> train, inf;
    for (int v = 0; v < 5'000; ++v) {
      train.push_back(3 * normal(random));
      inf.push_back(train.back() + 0.01 * normal(random));
      if (v % 50 == 7) train.back() = -80 + normal(random), inf.back() = -60 + normal(random);
    }
    Case test;
    test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
    test.pair = {test.train.values, test.inf.values, 1, 3, 10};
    const driftgate_row row = evaluate(*kernel, test);
    CAPTURE(kernel->name);
    CHECK(std::tanh(value(row, Metric::logit_span) / 4) > 0.99);
    CHECK(row.head_tail_tv < 0.025);
    CHECK(row.head_tail_tv >= value(row, Metric::tv));
  }
}

TEST_CASE("identical rows have a head-tail bound of exactly 0, and rows without figures have none") {
  std::mt19937_64 random(kSeed + 2);
  Case test = random_case(random, 600);
  test.inf = test.train;
  for (const cpu::TileKernel* kernel : kernels()) CHECK(evaluate(*kernel, test).head_tail_tv == 0.0);
  const std::vector<double> broken(20, std::numeric_limits<double>::quiet_NaN());
  test.train = test.inf = store(broken, DRIFTGATE_F32);
  test.pair = {test.train.values, test.inf.values, 1, 3, 10};
  CHECK(std::isnan(evaluate(cpu::best_kernel(), test).head_tail_tv));
}
