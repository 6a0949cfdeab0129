#include "gpu/columns/column_check.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "gpu/compare_bits.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr int kTokens = 600;

/// K_inf has K_train's logits and 0.25 more, changed by `change(row, logits)`.
MeasurementTable measured(int rows, const std::function<void(int row, std::vector<float>& logits)>& change) {
  const TemporaryFolder folder;
  CaptureDraft train, inf;
  train.vocabulary = inf.vocabulary = kTokens;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (int row = 0; row < rows; ++row) {
    std::vector<float> z(kTokens), y(kTokens);
    for (std::size_t v = 0; v < z.size(); ++v)
      z[v] = std::round(normal(random) * 64) / 64, y[v] = z[v] + 0.25F;
    change(row, y);
    // The token of a row is ten times its position.
    train.add_row(row / 20, row % 20, 10 * (row % 20), z);
    inf.add_row(row / 20, row % 20, 10 * (row % 20), y);
  }
  train.write(folder / "train.safetensors");
  inf.write(folder / "inf.safetensors");
  const auto opened_train = Capture::open(folder / "train.safetensors");
  const auto opened_inf = Capture::open(folder / "inf.safetensors");
  if (!opened_train || !opened_inf) FAIL("the captures cannot be opened");
  auto table = measure_with_bits(*opened_train, *opened_inf, nullptr, {}, {});
  if (!table) FAIL(table.error().describe());
  return std::move(*table);
}

}  // namespace

TEST_CASE("blocks of columns that drift are told from the middle of their rows") {
  const MeasurementTable table = measured(40, [](int, std::vector<float>& y) {
    for (std::size_t v = 300; v < 540; ++v) y[v] -= v < 420 ? 1 : 0;
  });
  REQUIRE(table.columns.has_value());
  CHECK(table.columns->rows == 40);
  CHECK(table.columns->block_columns == 3);
  REQUIRE(table.columns->blocks.size() == 200);
  for (std::size_t block = 0; block < 200; ++block) {
    const OffsetSums& sums = table.columns->blocks[block];
    const double expected = block >= 100 && block < 140 ? 1 : 0;
    CHECK(sums.n == 120);
    CHECK(sums.sum == doctest::Approx(120 * expected));
    CHECK(sums.squares == doctest::Approx(120 * expected));
  }
  const auto again = deserialise(serialise(table));
  REQUIRE(again.has_value());
  REQUIRE(again->columns.has_value());
  CHECK(again->columns->blocks[120].sum == table.columns->blocks[120].sum);
  MeasurementTable wrong = table;
  wrong.columns->blocks.pop_back();
  CHECK_FALSE(deserialise(serialise(wrong)).has_value());
  wrong.columns->blocks.clear();
  CHECK_FALSE(deserialise(serialise(wrong)).has_value());
  wrong = table;
  wrong.columns->block_columns = 0;
  CHECK_FALSE(deserialise(serialise(wrong)).has_value());
}

TEST_CASE("tokens of earlier rows of the same sequence are told from the others") {
  const MeasurementTable table = measured(40, [](int row, std::vector<float>& y) {
    for (int position = 0; position < row % 20; ++position)
      y[static_cast<std::size_t>(10 * position)] -= 0.5F;
  });
  REQUIRE(table.columns.has_value());
  const OffsetSums &before = table.columns->before, &others = table.columns->others;
  CHECK(before.n == 2 * 190);
  CHECK(before.above == before.n);
  CHECK(before.sum == doctest::Approx(190));
  CHECK(others.n == 2 * 19 * kTokens - before.n);  // the first row of a sequence has none before it
  CHECK(others.squares == doctest::Approx(0));
}

TEST_CASE("columns that both mask have no part, and rows that only one masks are left out") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const MeasurementTable table = measured(40, [](int row, std::vector<float>& y) {
    if (row == 3) y[5] = -kInfinity;
  });
  REQUIRE(table.columns.has_value());
  CHECK(table.columns->rows == 39);
}

TEST_CASE("of many rows, ones spread evenly over the captures are looked at") {
  const MeasurementTable table = measured(1'500, [](int, std::vector<float>&) {});
  REQUIRE(table.columns.has_value());
  CHECK(table.columns->rows == kMostColumnRows);
  CHECK(table.columns->before.n > 0);
}
