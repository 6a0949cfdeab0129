#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "tests/gpu/against_oracle.hpp"
#include "tests/gpu/effort.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261121;

/// Rows whose largest logits appear while sums are under way: the order in which a row is read, not its
/// content, decides which column is kept apart, and the pivot and units of the sums.
Case ordered_case(std::mt19937_64& random) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  const auto vocabulary = static_cast<std::size_t>(pick(256, 512, 2048, 2064, 4096, 6144, 6160, 9001));
  const double size = pick(1, 3, 8), noise = pick(1e-7, 1e-4, 0.005, 0.03, 0.2);
  const double offset = pick(0, 0, 0.4, -30), rise = pick(0, 2, 20, 45, 90);
  const auto order = static_cast<int>(pick(0, 1, 2, 3)), tops = static_cast<int>(pick(0, 1, 5));
  const bool rounded = pick(0, 0, 1) > 0;
  std::normal_distribution<double> normal;
  std::vector<double> train(vocabulary), inf(vocabulary);
  for (double& z : train) z = rounded ? std::round(size * normal(random)) : size * normal(random);
  if (order == 1) std::ranges::sort(train);
  if (order == 2) std::ranges::sort(train, std::greater{});
  if (order == 3) std::ranges::sort(train.begin() + static_cast<std::ptrdiff_t>(vocabulary / 2), train.end());
  for (int i = 0; i < tops; ++i) train[random() % vocabulary] = 4 * size + rise * normal(random);
  for (std::size_t v = 0; v < vocabulary; ++v) inf[v] = train[v] + offset + noise * normal(random);
  Case out;
  const auto dtype = static_cast<std::uint32_t>(random() % 3);
  out.train = store(train, dtype), out.inf = store(inf, dtype);
  out.pair = {out.train.values, out.inf.values, 1, static_cast<std::int64_t>(random() % vocabulary),
              static_cast<std::uint32_t>(pick(1, 10, 16, 17, 60))};
  out.text = "V " + std::to_string(vocabulary) + ", size " + std::to_string(size) + ", noise " +
             std::to_string(noise) + ", offset " + std::to_string(offset) + ", rise " + std::to_string(rise) +
             ", order " + std::to_string(order) + ", tops " + std::to_string(tops) + ", dtype " +
             std::to_string(dtype) + ", k " + std::to_string(out.pair.top_k);
  return out;
}

}  // namespace

TEST_CASE("wherever in a row its largest logits stand, the figures are those of the oracle") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < effort(1'500); ++i) {
    const Case test = ordered_case(random);
    require_figures(oracle(test.pair), test, kSeed, i);
  }
}

TEST_CASE("one column that has nearly all of the mass is told from the rest in every place of a row") {
  constexpr std::size_t kVocabulary = 4'128;  // ends within a block
  std::mt19937_64 random(kSeed + 1);
  std::normal_distribution<double> normal;
  std::vector<double> train(kVocabulary), inf(kVocabulary);
  for (std::size_t v = 0; v < kVocabulary; ++v) {
    train[v] = normal(random);
    inf[v] = train[v] + 0.01 * normal(random);
  }
  for (const std::size_t at : std::array<std::size_t, 14>{0, 15, 16, 255, 256, 511, 512, 1'536, 2'047, 2'048,
                                                          3'000, 4'095, 4'096, 4'127}) {
    Case test;
    std::vector<double> z = train, y = inf;
    z[at] = 25, y[at] = 25.02;
    test.train = store(z, DRIFTGATE_F32), test.inf = store(y, DRIFTGATE_F32);
    test.pair = {test.train.values, test.inf.values, 1, static_cast<std::int64_t>(at), 10};
    const Row wanted = oracle(test.pair);
    for (const cpu::TileKernel* kernel : kernels()) {
      CAPTURE(kernel->name);
      CAPTURE(at);
      REQUIRE(disagreement(wanted, evaluate(*kernel, test).values) == "");
    }
  }
}
