#include "gpu/fused/packed_pairs.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/gpu/fused/hidden_case.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kWidth = 301, kVocabulary = 70;  // three steps, the last of an odd number of elements

/// A head in bf16 of the given weights.
std::shared_ptr<const fused::LmHead> head_of(const std::vector<double>& weights) {
  HiddenCase test;
  test.head_train = test.head_inf = {kVocabulary, kWidth, store(weights, DRIFTGATE_BF16), {}, 1, 0};
  test.train.width = test.inf.width = kWidth;
  test.train.hidden = test.inf.hidden = store(std::vector<double>(kWidth), DRIFTGATE_BF16);
  test.train.sequences = test.inf.sequences = {0};
  test.train.tokens = test.inf.tokens = {0};
  const TemporaryFolder folder;
  return open_case(test, folder).train.head();
}

struct Products {
  std::vector<double> z, drift;
};

Products multiply(const fused::LmHead& head, const std::vector<std::vector<float>>& train,
                  const std::vector<std::vector<float>>& drift) {
  const fused::PairKernel& kernel = *fused::best_pairs();
  const std::size_t rows = (train.size() + kernel.rows - 1) / kernel.rows * kernel.rows, stride = 96;
  fused::PackedPairs pairs(kernel, rows, kWidth);
  pairs.clear(rows);
  for (std::size_t row = 0; row < train.size(); ++row) pairs.set_row(row, train[row], drift[row]);
  pairs.order_terms();
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t v = 0; v < kVocabulary; ++v) tokens.push_back(v);
  Products out{std::vector<double>(rows * stride), std::vector<double>(rows * stride)};
  for (std::size_t step = 0; step * fused::kDepth < kWidth; ++step)
    pairs.add_products(step, head, tokens, out.z.data(), out.drift.data(), stride);
  return out;
}

}  // namespace

TEST_CASE("each element of a drift is multiplied by its weight exactly, whatever the neighbouring rows are") {
  if (fused::best_pairs() == nullptr) return;
  std::vector<double> weights(std::size_t{kVocabulary} * kWidth);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = std::ldexp(1.0, static_cast<int>(i * i % 11) - 5);  // a product with it is exact
  const auto head = head_of(weights);
  const float drifts[] = {1.0F, 1.0F + 0x1p-8F, -1.0F - 0x1p-9F - 0x1p-23F, 0x1.fffffep3F, 0x1.010101p-9F,
                          0.0F, 0x1.7ffffep-3F};
  std::vector<std::vector<float>> train, drift;
  for (std::size_t row = 0; row < kWidth; ++row) {
    train.emplace_back(kWidth), drift.emplace_back(kWidth);
    train[row][(7 * row) % kWidth] = 0x1.9p0F;
    drift[row][row] = drifts[row % std::size(drifts)];
  }
  const Products got = multiply(*head, train, drift);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < kWidth; ++row) {
    for (std::size_t v = 0; v < kVocabulary; ++v) {
      const double weight = weights[v * kWidth + row], other = weights[v * kWidth + (7 * row) % kWidth];
      if (got.drift[row * 96 + v] != static_cast<double>(drift[row][row]) * weight) ++wrong;
      if (got.z[row * 96 + v] != 0x1.9p0 * other) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("products of pairs are as close as float32 sums, and the same bits next to any other rows") {
  if (fused::best_pairs() == nullptr) return;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> weights(std::size_t{kVocabulary} * kWidth);
  for (double& weight : weights) weight = normal(random);
  const std::vector<double> rounded = store(weights, DRIFTGATE_BF16).values;
  const auto head = head_of(weights);
  std::vector<std::vector<float>> train, drift;
  for (std::size_t row = 0; row < 31; ++row) {
    std::vector<double> a(kWidth), b(kWidth);
    for (std::size_t k = 0; k < kWidth; ++k) a[k] = normal(random), b[k] = a[k] + 0.01 * normal(random);
    a = store(a, DRIFTGATE_BF16).values, b = store(b, DRIFTGATE_BF16).values;
    train.emplace_back(a.begin(), a.end());
    drift.emplace_back();
    for (std::size_t k = 0; k < kWidth; ++k) drift.back().push_back(static_cast<float>(a[k] - b[k]));
  }
  const Products all = multiply(*head, train, drift);
  for (std::size_t row = 0; row < train.size(); ++row) {
    const Products one = multiply(*head, {train[row]}, {drift[row]});
    for (std::size_t v = 0; v < kVocabulary; ++v) {
      long double z = 0, d = 0, size_z = 0, size_d = 0;
      for (std::size_t k = 0; k < kWidth; ++k) {
        const long double weight = rounded[v * kWidth + k];
        z += weight * train[row][k], size_z += fabsl(weight * train[row][k]);
        d += weight * drift[row][k], size_d += fabsl(weight * drift[row][k]);
      }
      // 192 roundings of a float, of partial sums no larger than the sum of all sizes.
      constexpr long double kBound = 192 * 0x1p-24L;
      REQUIRE(fabsl(all.z[row * 96 + v] - z) <= kBound * size_z);
      REQUIRE(fabsl(all.drift[row * 96 + v] - d) <= kBound * size_d);
      REQUIRE(all.z[row * 96 + v] == one.z[v]);
      REQUIRE(all.drift[row * 96 + v] == one.drift[v]);
    }
  }
}
