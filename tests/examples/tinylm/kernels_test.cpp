#include "examples/tinylm/src/kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "examples/tinylm/src/linear.hpp"

using namespace tinylm;

namespace tinylm::baseline {
extern const Kernels kTable;
}

namespace {

std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

TEST_CASE("the baseline and the chosen instruction set give the same products up to rounding") {
  constexpr std::size_t kRows = 7, kIn = 96, kOut = 48;
  const auto x = random_values(kRows * kIn, 1), w = random_values(kOut * kIn, 2);
  for (const std::size_t block : {0, 32, 64, 512}) {
    std::vector<float> a(kRows * kOut), b(kRows * kOut);
    baseline::kTable.matmul(x.data(), w.data(), a.data(), kRows, kIn, kOut, block);
    kernels().matmul(x.data(), w.data(), b.data(), kRows, kIn, kOut, block);
    for (std::size_t i = 0; i < a.size(); ++i) {
      // 96 terms of size about 1: each order errs by at most 96 roundings of 2^-24 of a sum below 64.
      CHECK(std::abs(a[i] - b[i]) <= 2 * 96 * 64 * 0x1p-24);
    }
  }
}

TEST_CASE("products match a double-precision sum") {
  constexpr std::size_t kRows = 5, kIn = 20, kOut = 16;
  const auto x = random_values(kRows * kIn, 3), w = random_values(kOut * kIn, 4);
  for (const std::size_t block : {0, 8, 512}) {
    std::vector<float> y(kRows * kOut);
    kernels().matmul(x.data(), w.data(), y.data(), kRows, kIn, kOut, block);
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t o = 0; o < kOut; ++o) {
        double exact = 0;
        for (std::size_t i = 0; i < kIn; ++i)
          exact += static_cast<double>(x[r * kIn + i]) * w[i * kPanel + o];
        CHECK(std::abs(y[r * kOut + o] - exact) <= 20 * 32 * 0x1p-24);
      }
  }
}

TEST_CASE("bfloat16 rounding is to nearest, ties to even") {
  std::vector<float> x = {1.0f, 1.00390625f, 1.01171875f, 1.005f, -1.00390625f, 0.0f};
  kernels().round_bf16(x.data(), x.size());
  CHECK(x == std::vector<float>{1.0f, 1.0f, 1.015625f, 1.0078125f, -1.0f, 0.0f});
}

TEST_CASE("int8 products are exact in every order of summation, float32 products are not") {
  const auto weight = random_values(32 * 128, 5), x = random_values(200 * 128, 6);
  const auto row_in_batch = [&](Precision precision, std::size_t rows) {
    Linear linear(precision, weight, 32, 128, {});
    std::vector<float> y(rows * linear.padded_out());
    linear.apply(x.data(), rows, y.data());
    return std::vector<float>(y.begin(), y.begin() + 32);
  };
  for (const std::size_t rows : {2, 20, 200})
    CHECK(row_in_batch(Precision::int8, 1) == row_in_batch(Precision::int8, rows));
  CHECK(row_in_batch(Precision::f32, 1) != row_in_batch(Precision::f32, 20));
  CHECK(row_in_batch(Precision::f32, 20) != row_in_batch(Precision::f32, 200));
}

TEST_CASE("a static scale clips what calibration did not see and a dynamic one does not") {
  const std::vector<float> identity = [] {
    std::vector<float> w(16 * 16);
    for (std::size_t i = 0; i < 16; ++i) w[i * 16 + i] = 1.0f;
    return w;
  }();
  std::vector<float> x(16, 1.0f), y(16);
  x[3] = 4.0f;
  Linear fixed(Precision::int8_static, identity, 16, 16, std::vector<float>(16, 1.0f));
  fixed.apply(x.data(), 1, y.data());
  CHECK(y[3] == doctest::Approx(1.0));
  Linear dynamic(Precision::int8, identity, 16, 16, {});
  dynamic.apply(x.data(), 1, y.data());
  CHECK(y[3] == doctest::Approx(4.0));
}

TEST_CASE("attention weighs its keys and does not depend on the splits beyond rounding") {
  const auto query = random_values(16, 7), keys = random_values(50 * 16, 8),
             values = random_values(50 * 16, 9);
  std::vector<float> scores(50), one(16), four(16);
  kernels().attend(
      {query.data(), keys.data(), values.data(), 50, 16, 16, 1, false, scores.data(), one.data()});
  kernels().attend(
      {query.data(), keys.data(), values.data(), 50, 16, 16, 4, false, scores.data(), four.data()});
  std::vector<double> weights(50);
  double total = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    double score = 0;
    for (std::size_t d = 0; d < 16; ++d) score += static_cast<double>(query[d]) * keys[i * 16 + d];
    total += weights[i] = std::exp(score / 4);
  }
  for (std::size_t d = 0; d < 16; ++d) {
    double exact = 0;
    for (std::size_t i = 0; i < 50; ++i) exact += weights[i] / total * values[i * 16 + d];
    // Values of size up to 4 and weights that sum to 1: 50 roundings, and exp to a few units in the last
    // place.
    CHECK(std::abs(one[d] - exact) <= 4 * 64 * 0x1p-24);
    CHECK(std::abs(four[d] - exact) <= 4 * 64 * 0x1p-24);
  }
}
