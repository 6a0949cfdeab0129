#include "gpu/cpu/row_engine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/gpu/kernels.hpp"
#include "tests/gpu/logits.hpp"
#include "tests/gpu/oracle.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

driftgate_row evaluate(const std::vector<double>& train, const std::vector<double>& inf,
                       std::int64_t token = -1, std::uint32_t top_k = 10,
                       const cpu::TileKernel& kernel = cpu::best_kernel(),
                       std::uint32_t dtype = DRIFTGATE_F32) {
  const Stored a = store(train, dtype), b = store(inf, dtype);
  const auto vocabulary = static_cast<std::uint32_t>(train.size());
  const driftgate_batch batch{
      sizeof(driftgate_batch),      vocabulary, 1, a.view(vocabulary), b.view(vocabulary),
      token < 0 ? nullptr : &token, 1.0};
  cpu::RowEngine engine(kernel, vocabulary, top_k);
  driftgate_row row{};
  engine.measure(batch, 0, row);
  return row;
}

double value(const driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

}  // namespace

TEST_CASE("phi has no cancellation") {
  for (const double x : {1e-12, -1e-9, 1e-4, -0.3, 0.99, 1.0, -1.0, 5.0, -40.0}) {
    const long double wide = x;
    const long double wanted = std::abs(x) < 1e-6
                                   ? wide * wide / 2 + wide * wide * wide / 6 + powl(wide, 4) / 24
                                   : expm1l(wide) - wide;
    CAPTURE(x);
    CHECK(std::abs(static_cast<double>(cpu::phi(x) / wanted - 1)) < 1e-14);
  }
  CHECK(cpu::phi(0) == 0);
}

TEST_CASE("a NaN or infinite logit is counted wherever it stands and makes every other figure NaN") {
  for (const cpu::TileKernel* kernel : kernels()) {
    for (const std::uint32_t dtype : {DRIFTGATE_F32, DRIFTGATE_F16, DRIFTGATE_BF16}) {
      for (const std::size_t at : {0U, 5U, 2047U, 2048U, 2053U}) {
        for (const double bad : {kNaN, kInfinity, -kInfinity}) {
          std::vector<double> train(2'054, 0.5), inf(2'054, 0.5);
          train[at] = bad;
          const driftgate_row row = evaluate(train, inf, 1, 10, *kernel, dtype);
          CAPTURE(at);
          CHECK(row.status == DRIFTGATE_ROW_NONFINITE);
          CHECK(value(row, Metric::nonfinite) == 1);
          for (std::size_t metric = 0; metric + 1 < kRowMetricCount; ++metric)
            CHECK(std::isnan(row.values[metric]));
        }
      }
    }
  }
}

TEST_CASE("logits that are not finite are counted in both kernels and masked entries are not") {
  std::vector<double> train(100, 1.0), inf(100, 1.0);
  train[3] = inf[3] = -kInfinity;  // masked
  train[4] = kNaN, inf[4] = kInfinity;
  train[5] = inf[5] = kInfinity;  // +Inf in both is no mask
  CHECK(value(evaluate(train, inf), Metric::nonfinite) == 4);
}

TEST_CASE("a row whose entries are all masked has no distribution") {
  const std::vector<double> none(20, -kInfinity);
  CHECK(evaluate(none, none).status == DRIFTGATE_ROW_ALL_MASKED);
}

TEST_CASE("a masked target token is reported") {
  std::vector<double> train(20, 0.0);
  train[7] = -kInfinity;
  CHECK(evaluate(train, train, 7).status == DRIFTGATE_ROW_TOKEN_MASKED);
  CHECK(evaluate(train, train, 8).status == DRIFTGATE_ROW_OK);
}

TEST_CASE("ties go to the lowest token id in both kernels") {
  // Twelve equal logits across a tile boundary; the inference kernel raises the last by a hair.
  std::vector<double> train(3'000, -5.0), inf;
  for (const std::size_t at : {10U, 20U, 30U, 40U, 50U, 60U, 70U, 2100U, 2200U, 2300U, 2400U, 2500U})
    train[at] = 1.0;
  inf = train;
  CHECK(value(evaluate(train, inf), Metric::top1_flip) == 0);
  inf[2'500] = 1.0001;
  for (const cpu::TileKernel* kernel : kernels()) {
    const driftgate_row row = evaluate(train, inf, -1, 10, *kernel);
    CHECK(value(row, Metric::top1_flip) == 1);
    CHECK(value(row, Metric::topk_overlap) == doctest::Approx(0.9));
    CHECK(value(row, Metric::top1_margin) == 0);
  }
}

TEST_CASE("top-k overlap counts at most the entries that are not masked") {
  std::vector<double> train(50, -kInfinity), inf(50, -kInfinity);
  for (const std::size_t at : {1U, 2U, 3U, 4U}) train[at] = inf[at] = static_cast<double>(at);
  CHECK(value(evaluate(train, inf), Metric::topk_overlap) == 1);
  CHECK(value(evaluate(train, inf, -1, 2), Metric::topk_overlap) == 1);
  inf[1] = 9.0;
  CHECK(value(evaluate(train, inf, -1, 2), Metric::topk_overlap) == 0.5);
}

TEST_CASE("a vocabulary of one token cannot flip") {
  const driftgate_row row = evaluate({3.0}, {-2.0}, 0);
  CHECK(row.status == DRIFTGATE_ROW_OK);
  CHECK(value(row, Metric::top1_margin) == kInfinity);
  CHECK(value(row, Metric::tv) == 0);
  CHECK(value(row, Metric::logprob_train) == 0);
  CHECK(value(row, Metric::logit_max_abs) == 5);
}

TEST_CASE("logits at the edge of float give figures, not NaN") {
  std::vector<double> train(300, -3e38), inf(300, 3e38);
  train[7] = 3.4e38;
  inf[9] = -3.4e38;
  for (const cpu::TileKernel* kernel : kernels()) {
    const driftgate_row row = evaluate(train, inf, 7, 10, *kernel);
    CHECK(row.status == DRIFTGATE_ROW_OK);
    for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
      CAPTURE(schema::to_string(static_cast<Metric>(metric)));
      CHECK_FALSE(std::isnan(row.values[metric]));
    }
    CHECK(value(row, Metric::tv) > 0.99);
    CHECK(value(row, Metric::tv) <= 1.0);
  }
}

TEST_CASE("masked columns before the first logit are no part of a row, however low or high its logits are") {
  // Two and a half tiles, of which the first is masked; what a tile is scaled by must not come from nowhere.
  for (const cpu::TileKernel* kernel : kernels()) {
    for (const double level : {-2'000.0, -800.0, 0.0, 800.0, 2'000.0}) {
      std::mt19937_64 random(7);
      std::normal_distribution<double> logit(level, 2.0);
      std::vector<double> train, inf;
      for (std::size_t v = 0; v < 5'120; ++v) {
        train.push_back(v < 2'048 ? -kInfinity : static_cast<double>(static_cast<float>(logit(random))));
        const double near = train.back() + (v % 2 == 0 ? 0.0078125 : -0.0078125);
        inf.push_back(static_cast<double>(static_cast<float>(near)));
      }
      const Pair pair{train, inf, 1, std::nullopt, 10};
      CAPTURE(kernel->name);
      CAPTURE(level);
      CHECK(disagreement(oracle(pair), evaluate(train, inf, -1, 10, *kernel).values) == "");
    }
  }
}

TEST_CASE("larger logits may come late, in any column of a tile, and a later tile may be masked") {
  for (const cpu::TileKernel* kernel : kernels()) {
    for (const std::size_t column : {0, 511, 512, 2'047}) {
      std::mt19937_64 random(11);
      std::normal_distribution<double> logit(0, 2.0);
      std::vector<double> train, inf;
      for (std::size_t v = 0; v < 10'240; ++v) {
        const bool masked = v >= 6'144 && v < 8'192;
        const double rise = v % 2'048 == column ? 10.0 + 6.0 * static_cast<double>(v / 2'048) : 0.0;
        train.push_back(masked ? -kInfinity : static_cast<double>(static_cast<float>(logit(random) + rise)));
        const double near = train.back() + (v % 2 == 0 ? 0.0078125 : -0.0078125);
        inf.push_back(static_cast<double>(static_cast<float>(near)));
      }
      const Pair pair{train, inf, 1, std::nullopt, 10};
      CAPTURE(kernel->name);
      CAPTURE(column);
      CHECK(disagreement(oracle(pair), evaluate(train, inf, -1, 10, *kernel).values) == "");
    }
  }
}

TEST_CASE("merging in any grouping gives the same sums up to rounding") {
  constexpr std::uint64_t kSeed = 77;
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  constexpr std::size_t kParts = 8;
  constexpr std::size_t kColumns = 500;
  std::vector<double> train, inf;
  for (std::size_t i = 0; i < kParts * kColumns; ++i) {
    train.push_back(4 * normal(random));
    inf.push_back(train.back() + 3.0 + 1e-3 * normal(random) + (i % 611 == 0 ? 1.5 : 0.0));
  }
  const Stored a = store(train, DRIFTGATE_F32), b = store(inf, DRIFTGATE_F32);
  std::vector<cpu::Pass1> parts(kParts);
  std::vector<double> scratch(3 * cpu::kTileColumns);
  cpu::TopEntry entries[2][10];
  cpu::TopList top_a{entries[0], 10, 0}, top_b{entries[1], 10, 0};
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::size_t byte = 1 + 4 * i * kColumns;
    const cpu::TileInput input{a.bytes.data() + byte,
                               b.bytes.data() + byte,
                               DRIFTGATE_F32,
                               DRIFTGATE_F32,
                               kColumns,
                               static_cast<std::uint32_t>(i * kColumns),
                               1.0};
    cpu::Tile tile{scratch.data(),
                   scratch.data() + cpu::kTileColumns,
                   scratch.data() + 2 * cpu::kTileColumns,
                   0,
                   0,
                   0,
                   0};
    REQUIRE(cpu::best_kernel().pass1(input, tile, top_a, top_b, parts[i]) == 0);
  }
  cpu::Pass1 forward = parts[0];
  for (std::size_t i = 1; i < kParts; ++i) cpu::merge(forward, parts[i]);
  cpu::Pass1 backward = parts[kParts - 1];
  for (std::size_t i = kParts - 1; i-- > 0;) cpu::merge(backward, parts[i]);
  const auto kl = [](const cpu::Pass1& sums) {
    const double u = sums.g / sums.l_p - sums.s / sums.l_p;
    return sums.g / sums.l_p - (u - std::log1p(u));
  };
  const Row wanted = oracle({a.values, b.values, 1.0, std::nullopt, 10});
  const auto kl_wanted = static_cast<double>(wanted[static_cast<std::size_t>(Metric::kl_train_inf)]);
  // 5e-12 is the error of 8 parts in float64 (docs/design/measurement.md, "Merging partial sums"); u − log1p
  // u costs the rest here.
  CHECK(kl(forward) == doctest::Approx(kl_wanted).epsilon(1e-8));
  CHECK(kl(backward) == doctest::Approx(kl_wanted).epsilon(1e-8));
  CHECK(backward.m2 == doctest::Approx(forward.m2).epsilon(1e-10));
  CHECK(backward.mean_drift == doctest::Approx(forward.mean_drift).epsilon(1e-12));
  CHECK(std::log(backward.l_q) + backward.m_q ==
        doctest::Approx(std::log(forward.l_q) + forward.m_q).epsilon(1e-13));
  CHECK(backward.min_drift == forward.min_drift);
  CHECK(backward.max_drift == forward.max_drift);
}
