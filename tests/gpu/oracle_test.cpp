#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "gpu/cpu/row_engine.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/logits.hpp"
#include "tests/gpu/oracle.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20260101;
constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// A random row pair: shape, size of the logits, drift from 1e-9 to 50, offset, ties, masks, dtype.
struct Case {
  Stored train, inf;
  Pair pair;
  std::string text;
};

Case random_case(std::mt19937_64& random) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  const auto vocabulary =
      static_cast<std::uint32_t>(pick(1, 2, 7, 8, 9, 63, 259, 2047, 2048, 2049, 4100, 9001));
  const double size = pick(0.01, 1, 5, 30, 200);
  const double drift = pick(0, 1e-9, 1e-7, 1e-5, 1e-3, 0.03, 0.3, 1, 5, 50);
  const double offset = pick(0, 0, 7.3, -100);
  const double masked = pick(0, 0, 0.01, 0.9);
  const bool ties = pick(0, 0, 1) > 0;
  Case out;
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  for (std::uint32_t v = 0; v < vocabulary; ++v) {
    double z = size * normal(random);
    if (ties) z = std::round(z);
    const bool rare_jump = random() % 997 == 0;
    const double y = z + offset + drift * normal(random) + (rare_jump ? 2.0 : 0.0);
    const bool mask = v > 0 && std::generate_canonical<double, 53>(random) < masked;
    train.push_back(mask ? kMasked : z);
    inf.push_back(mask ? kMasked : y);
  }
  const auto dtype = static_cast<std::uint32_t>(random() % 3);
  out.train = store(train, dtype);
  out.inf = store(inf, static_cast<std::uint32_t>(random() % 4 == 0 ? random() % 3 : dtype));
  out.pair = {out.train.values, out.inf.values, pick(1, 1, 0.7, 2.5), std::nullopt,
              static_cast<std::uint32_t>(pick(1, 10, 10, 50))};
  std::int64_t token = static_cast<std::int64_t>(random() % vocabulary);
  while (train[static_cast<std::size_t>(token)] == kMasked) --token;
  out.pair.token = token;
  out.text = "V " + std::to_string(vocabulary) + ", size " + std::to_string(size) + ", drift " +
             std::to_string(drift) + ", offset " + std::to_string(offset) + ", masked " +
             std::to_string(masked) + ", temperature " + std::to_string(out.pair.temperature);
  return out;
}

bool finite(const std::vector<double>& values) {
  return std::ranges::none_of(values, [](double v) { return std::isnan(v) || v == -kMasked; });
}

driftgate_row evaluate(const cpu::TileKernel& kernel, const Case& test) {
  const auto vocabulary = static_cast<std::uint32_t>(test.pair.train.size());
  const std::int64_t token = *test.pair.token;
  const driftgate_batch batch{
      sizeof(driftgate_batch), vocabulary, 1, test.train.view(vocabulary), test.inf.view(vocabulary), &token,
      test.pair.temperature};
  cpu::RowEngine engine(kernel, vocabulary, test.pair.top_k);
  driftgate_row row{};
  engine.measure(batch, 0, row);
  return row;
}

}  // namespace

TEST_CASE("random rows agree with the long double oracle in every kernel") {
  for (const cpu::TileKernel* kernel : kernels()) {
    std::mt19937_64 random(kSeed);
    for (int i = 0; i < 2'500; ++i) {
      const Case test = random_case(random);
      if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
      CAPTURE(kernel->name);
      CAPTURE(kSeed);
      CAPTURE(i);
      CAPTURE(test.text);
      const driftgate_row row = evaluate(*kernel, test);
      REQUIRE(row.status == DRIFTGATE_ROW_OK);
      REQUIRE(disagreement(oracle(test.pair), row.values) == "");
    }
  }
}

TEST_CASE("kernels of all instruction sets agree to rounding") {
  std::mt19937_64 random(kSeed + 1);
  for (int i = 0; i < 300; ++i) {
    const Case test = random_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    CAPTURE(test.text);
    const driftgate_row first = evaluate(cpu::kPortableKernel, test);
    for (const cpu::TileKernel* kernel : kernels()) {
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
