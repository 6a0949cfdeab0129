#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "gpu/cpu/row_figures.hpp"
#include "tests/gpu/against_oracle.hpp"
#include "tests/gpu/effort.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20260101;
}  // namespace

TEST_CASE("random rows agree with the long double oracle in every kernel") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < effort(2'500); ++i) {
    const Case test = random_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    require_figures(oracle(test.pair), test, kSeed, i);
  }
}

TEST_CASE("rows like those of language models agree with the oracle, however peaked and however near") {
  std::mt19937_64 random(kSeed + 3);
  for (int i = 0; i < effort(1'500); ++i) {
    const Case test = peaked_case(random);
    require_figures(oracle(test.pair), test, kSeed, i);
  }
}

TEST_CASE("core rows agree with the oracle in what they have and have nothing else") {
  std::mt19937_64 random(kSeed + 4);
  for (int i = 0; i < effort(900); ++i) {
    const Case test = i % 2 == 0 ? random_case(random) : peaked_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    Row wanted = oracle(test.pair);
    driftgate_row core{};
    for (double& value : core.values) value = 1;
    cpu::keep_core(core);
    for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
      if (std::isnan(core.values[metric])) wanted[metric] = std::numeric_limits<long double>::quiet_NaN();
    }
    require_figures(wanted, test, kSeed, i, DRIFTGATE_METRICS_CORE);
  }
}

TEST_CASE("kernels of all instruction sets agree to rounding") {
  std::mt19937_64 random(kSeed + 1);
  for (int i = 0; i < effort(300); ++i) {
    const Case test = random_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    CAPTURE(test.text);
    const driftgate_row first = evaluate(cpu::kPortableKernel, test);
    for (const cpu::TileKernel* kernel : kernels()) {
      if (is_narrow(*kernel)) continue;  // bound to the oracle above, not to the places of float64
      const driftgate_row other = evaluate(*kernel, test);
      for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
        CAPTURE(schema::to_string(static_cast<Metric>(metric)));
        const double scale = std::abs(first.values[metric]);
        // The tolerance is the engine's own against the oracle, a hundred times tighter.
        const double allowed = std::max(1e-8 * scale, 1e-14);
        if (std::isinf(first.values[metric]))
          CHECK(other.values[metric] == first.values[metric]);
        else
          CHECK(std::abs(other.values[metric] - first.values[metric]) <= allowed);
      }
    }
  }
}

TEST_CASE("identical rows have exactly no drift") {
  std::mt19937_64 random(kSeed + 2);
  for (int i = 0; i < 100; ++i) {
    Case test = random_case(random);
    if (!finite(test.pair.train)) continue;
    test.inf = test.train;
    for (const cpu::TileKernel* kernel : kernels()) {
      const driftgate_row row = evaluate(*kernel, test);
      for (const Metric metric : {Metric::logit_max_abs, Metric::logit_rms, Metric::logit_span, Metric::tv,
                                  Metric::kl_train_inf, Metric::kl_inf_train, Metric::js, Metric::hellinger2,
                                  Metric::chi2, Metric::top1_flip, Metric::log_ratio}) {
        CAPTURE(schema::to_string(metric));
        CAPTURE(test.text);
        CHECK(row.values[static_cast<std::size_t>(metric)] == 0.0);
      }
      CHECK(row.values[static_cast<std::size_t>(Metric::topk_overlap)] == 1.0);
    }
  }
}
