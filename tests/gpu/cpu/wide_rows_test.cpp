#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/gpu/against_oracle.hpp"
#include "tests/gpu/effort.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261121;

}  // namespace

TEST_CASE("rows of any drift agree with the long double oracle in every kernel") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < effort(1'200); ++i) {
    const Case test = wide_case(random);
    require_figures(oracle(test.pair), test, kSeed, i);
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
