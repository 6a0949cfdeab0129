#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/gpu/effort.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261121;

/// Rows beyond the reach of series: noise of 1e-6 to 20 nats, jumps of single columns (also the likeliest, or
/// only such as have no mass), drifts that grow with the distance from the top, and drifts of few different
/// values, whose rounding errors all point the same way.
Case wide_case(std::mt19937_64& random) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  const auto vocabulary = static_cast<std::size_t>(pick(64, 100, 259, 1000, 2048, 5000, 12000));
  const double peak = pick(0, 0, 5, 12, 20), level = pick(0, 0, -30, 40, 1000), size = pick(0.5, 2, 4, 10);
  const double noise = pick(1e-6, 1e-4, 3e-3, 0.03, 0.1, 0.3, 0.5, 1, 2, 5, 10, 20);
  const double offset = pick(0, 0, 1e-3, 0.7, -3, 12, 300), slope = pick(0, 0, 0.01, 0.3);
  const double rare = pick(0, 0, 0.001, 0.05), jump = pick(1.5, 3, 8, 20, 60), faint = pick(0, 0, 10, 25);
  const double step = pick(0, 0, 0, 0.5, 1);
  const std::size_t top = random() % vocabulary;
  const bool top_jumps = random() % 4 == 0;
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    double z = level + size * normal(random);
    if (v == top) z += peak;
    if (v == (top + 7) % vocabulary) z += 0.8 * peak;
    const bool jumps = std::generate_canonical<double, 53>(random) < rare;
    if (jumps) z -= faint;
    double drift = offset + slope * (z - level) + noise * normal(random);
    if (jumps || (v == top && top_jumps)) drift += random() % 2 == 0 ? jump : -jump;
    if (step > 0) drift = std::round(drift / step) * step;
    train.push_back(z);
    inf.push_back(z + drift);
  }
  Case out;
  const auto dtype = static_cast<std::uint32_t>(random() % 3);
  out.train = store(train, dtype), out.inf = store(inf, dtype);
  out.pair = {out.train.values, out.inf.values, 1, static_cast<std::int64_t>(random() % vocabulary), 10};
  out.text = "V " + std::to_string(vocabulary) + ", peak " + std::to_string(peak) + ", level " +
             std::to_string(level) + ", size " + std::to_string(size) + ", noise " + std::to_string(noise) +
             ", offset " + std::to_string(offset) + ", slope " + std::to_string(slope) + ", rare " +
             std::to_string(rare) + ", jump " + std::to_string(jump) + ", faint " + std::to_string(faint) +
             ", step " + std::to_string(step) + ", dtype " + std::to_string(dtype);
  return out;
}

}  // namespace

TEST_CASE("rows of any drift agree with the long double oracle in every kernel") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < effort(1'200); ++i) {
    const Case test = wide_case(random);
    const Row wanted = oracle(test.pair);
    for (const cpu::TileKernel* kernel : kernels()) {
      CAPTURE(kernel->name);
      CAPTURE(kSeed);
      CAPTURE(i);
      CAPTURE(test.text);
      const driftgate_row row = evaluate(*kernel, test);
      REQUIRE(row.status == DRIFTGATE_ROW_OK);
      REQUIRE(disagreement(wanted, row.values) == "");
    }
  }
}

TEST_CASE("a drift that is the same in many columns is measured exactly at every size of it") {
  // All errors are alike and none averages out, so that this is the error of one term.
  constexpr std::size_t kColumns = 64;
  for (double drift = -12; drift <= 12; drift += 0.0371) {
    for (const std::size_t drifted : {1U, 7U, 32U, 63U}) {
      std::vector<double> train(kColumns, 0.25), inf(kColumns, 0.25);
      for (std::size_t v = 0; v < drifted; ++v) inf[v] += drift;
      Case test;
      test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
      test.pair = {test.train.values, test.inf.values, 1, 0, 10};
      const Row wanted = oracle(test.pair);
      for (const cpu::TileKernel* kernel : kernels()) {
        CAPTURE(kernel->name);
        CAPTURE(drift);
        CAPTURE(drifted);
        REQUIRE(disagreement(wanted, evaluate(*kernel, test).values) == "");
      }
    }
  }
}

TEST_CASE("columns far below the top count for what they are, however far they drift") {
  std::mt19937_64 random(kSeed + 1);
  std::normal_distribution<double> normal;
  for (const double depth : {30.0, 59.0, 61.0, 100.0, 500.0}) {
    for (const double drift : {30.0, 60.0, 90.0, 130.0, 700.0}) {
      for (const double sign : {-1.0, 1.0}) {
        std::vector<double> train, inf;
        for (std::size_t v = 0; v < 300; ++v) {
          const bool low = v % 30 == 7;
          train.push_back((low ? -depth : 0.0) + 2 * normal(random));
          inf.push_back(train.back() + (low ? sign * drift : 4 * normal(random)));
        }
        Case test;
        test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
        test.pair = {test.train.values, test.inf.values, 1, 0, 10};
        const Row wanted = oracle(test.pair);
        for (const cpu::TileKernel* kernel : kernels()) {
          CAPTURE(kernel->name);
          CAPTURE(depth);
          CAPTURE(sign * drift);
          CHECK(disagreement(wanted, evaluate(*kernel, test).values) == "");
        }
      }
    }
  }
}
