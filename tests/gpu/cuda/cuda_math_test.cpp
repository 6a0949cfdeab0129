#include <doctest/doctest.h>

#include <cstring>

#include "tests/gpu/emulated_rows.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/sentinel_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261121;

Case case_of(const std::vector<double>& train, const std::vector<double>& inf, std::uint32_t dtype,
             std::int64_t token = 3) {
  Case out;
  out.train = store(train, dtype), out.inf = store(inf, dtype);
  out.pair = {out.train.values, out.inf.values, 1, token, 10};
  return out;
}

/// Logits of a likely shape: a few likely tokens over a bulk, and a small drift.
Case ordinary_case(std::mt19937_64& random, std::size_t columns, double drift, std::uint32_t dtype) {
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  for (std::size_t v = 0; v < columns; ++v) {
    train.push_back(2 * normal(random) + (v % 997 == 5 ? 12.0 : 0.0));
    inf.push_back(train.back() + drift * normal(random));
  }
  return case_of(train, inf, dtype, static_cast<std::int64_t>(random() % columns));
}

double value(const driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

}  // namespace

TEST_CASE("the device's names of figures are those of the registry") {
  const auto index = [](Metric metric) { return static_cast<unsigned>(metric); };
  CHECK(cuda::kLogitMaxAbs == index(Metric::logit_max_abs));
  CHECK(cuda::kLogitRms == index(Metric::logit_rms));
  CHECK(cuda::kLogitSpan == index(Metric::logit_span));
  CHECK(cuda::kTv == index(Metric::tv));
  CHECK(cuda::kKlTrainInf == index(Metric::kl_train_inf));
  CHECK(cuda::kKlInfTrain == index(Metric::kl_inf_train));
  CHECK(cuda::kJs == index(Metric::js));
  CHECK(cuda::kHellinger2 == index(Metric::hellinger2));
  CHECK(cuda::kChi2 == index(Metric::chi2));
  CHECK(cuda::kEntropyTrain == index(Metric::entropy_train));
  CHECK(cuda::kEntropyInf == index(Metric::entropy_inf));
  CHECK(cuda::kTop1Flip == index(Metric::top1_flip));
  CHECK(cuda::kTopkOverlap == index(Metric::topk_overlap));
  CHECK(cuda::kTop1Margin == index(Metric::top1_margin));
  CHECK(cuda::kLogprobTrain == index(Metric::logprob_train));
  CHECK(cuda::kLogprobInf == index(Metric::logprob_inf));
  CHECK(cuda::kLogRatio == index(Metric::log_ratio));
  CHECK(cuda::kNonfinite == index(Metric::nonfinite));
}

TEST_CASE("the device's float64 form agrees with the oracle on random rows") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 250; ++i) {
    const Case test = random_case(random, 2'100);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const Staged staged(test);
    const driftgate_row row = run_wide(staged.view, 32U << (i % 3), kSeed + static_cast<unsigned>(i));
    REQUIRE(disagreement(oracle(test.pair), row.values) == "");
  }
}

TEST_CASE("a sentinel does not change the figures of the other tokens on the device") {
  for (const Case& test : sentinel_rows()) {
    CAPTURE(test.text);
    check_sentinel_row(test, run(test, {2, 64, 4'096}, kSeed));
  }
}

TEST_CASE("the device's float32 form agrees with the oracle wherever it is taken") {
  std::mt19937_64 random(kSeed + 1);
  int taken = 0;
  for (int i = 0; i < 400; ++i) {
    const Case test = i % 2 == 0 ? random_case(random) : peaked_case(random);
    if (test.pair.train.size() < 1'000) continue;
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const Staged staged(test);
    const Shape shape{1U << (i % 3), 32U << (i % 2), i % 5 == 0 ? 20U : 4'096U};
    driftgate_row row{};
    if (!run_fast(staged.view, shape, kSeed + static_cast<unsigned>(i), row)) continue;
    ++taken;
    REQUIRE(row.status == DRIFTGATE_ROW_OK);
    REQUIRE(disagreement(oracle(test.pair), row.values) == "");
  }
  MESSAGE("rows in float32: " << taken);
  CHECK(taken > 40);
}

TEST_CASE("core metrics on the device agree with the oracle, of one pass or of two") {
  std::mt19937_64 random(kSeed + 7);
  int taken = 0;
  for (int i = 0; i < 120; ++i) {
    const Case test = i % 2 == 0 ? peaked_case(random)
                                 : ordinary_case(random, 2'100 + random() % 3'000, std::pow(10.0, -(i % 7)),
                                                 static_cast<std::uint32_t>(i % 3));
    if (test.pair.train.size() < 1'000) continue;
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const Staged staged(test, cuda::Mode::core);
    driftgate_row row{};
    if (!run_fast(staged.view, {2, 64, 4'096}, kSeed, row)) continue;
    ++taken;
    Row wanted = oracle(test.pair);
    driftgate_row all = row;
    for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
      if (std::isnan(row.values[metric])) all.values[metric] = static_cast<double>(wanted[metric]);
    }
    REQUIRE(disagreement(wanted, all.values) == "");
    for (const Metric metric : {Metric::kl_train_inf, Metric::kl_inf_train, Metric::logit_max_abs,
                                Metric::logit_span, Metric::top1_flip, Metric::nonfinite,
                                Metric::logprob_train, Metric::logprob_inf, Metric::log_ratio}) {
      REQUIRE_FALSE(std::isnan(value(row, metric)));
    }
    for (const Metric metric : {Metric::tv, Metric::js, Metric::logit_rms, Metric::entropy_train}) {
      REQUIRE(std::isnan(value(row, metric)));
    }
    REQUIRE_FALSE(std::isnan(row.top_inf));
  }
  CHECK(taken > 30);
}

TEST_CASE("both of the device's forms give the bounds and likely tokens that the CPU gives") {
  std::mt19937_64 random(kSeed + 2);
  for (int i = 0; i < 60; ++i) {
    const Case test = i % 3 == 0 ? random_case(random, 4'100)
                                 : ordinary_case(random, 2'100 + random() % 3'000, i % 2 == 0 ? 1e-3 : 0.05,
                                                 static_cast<std::uint32_t>(i % 3));
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const driftgate_row device = run(test, {}, kSeed), cpu = evaluate(cpu::best_kernel(), test);
    // A token whose p is a rounding away from a head's edge may fall to either side: its mass is 1e-4 of tv.
    REQUIRE(device.head_tail_tv == doctest::Approx(cpu.head_tail_tv).epsilon(1e-3));
    REQUIRE(device.head_tail_tv >= value(device, Metric::tv) * (1 - 1e-6));
    REQUIRE(device.top_train == doctest::Approx(cpu.top_train).epsilon(1e-6));
    REQUIRE(device.top_inf == doctest::Approx(cpu.top_inf).epsilon(1e-6));
  }
}

TEST_CASE("every layout of blocks and threads gives the same row, and the same layout the same bits") {
  std::mt19937_64 random(kSeed + 3);
  for (const std::uint32_t dtype : {DRIFTGATE_F32, DRIFTGATE_F16, DRIFTGATE_BF16}) {
    const Case test = ordinary_case(random, 6'003, 0.01, dtype);
    const Row wanted = oracle(test.pair);
    for (const Shape& shape : {Shape{1, 32, 4'096}, Shape{1, 256, 0}, Shape{2, 64, 100}, Shape{4, 64, 4'096},
                               Shape{8, 32, 4'096}, Shape{16, 32, 10}}) {
      CAPTURE(dtype);
      CAPTURE(shape.blocks);
      CAPTURE(shape.threads);
      bool fast = false;
      const driftgate_row first = run(test, shape, 1, &fast), second = run(test, shape, 2);
      CHECK(fast);
      CHECK(disagreement(wanted, first.values) == "");
      CHECK(std::memcmp(&first, &second, sizeof(first)) == 0);
    }
  }
}

TEST_CASE("a cluster that takes one row after another gives each what it has alone") {
  constexpr std::size_t kColumns = 3'000, kRows = 6;
  std::mt19937_64 random(kSeed + 9);
  std::vector<double> train, inf;
  std::vector<Case> alone;
  for (std::size_t i = 0; i < kRows; ++i) {
    Case row = ordinary_case(random, kColumns, i % 2 == 0 ? 0.002 : 0.1, DRIFTGATE_F32);
    if (i == 2) row.inf = store(std::vector<double>(kColumns, 40.0), DRIFTGATE_F32);  // left to float64
    row = case_of(row.train.values, row.inf.values, DRIFTGATE_F32, 7);
    train.insert(train.end(), row.train.values.begin(), row.train.values.end());
    inf.insert(inf.end(), row.inf.values.begin(), row.inf.values.end());
    alone.push_back(std::move(row));
  }
  const Case all = case_of(train, inf, DRIFTGATE_F32, 7);
  const Staged staged(all);
  cuda::BatchView view = staged.view;
  const std::vector<std::int64_t> tokens(kRows, 7);
  view.columns = kColumns, view.rows = kRows, view.tokens = tokens.data();
  view.train_stride_bytes = view.inf_stride_bytes = 4 * kColumns;
  const Shape shape{2, 64, 4'096};
  std::vector<cuda::FastRow> rows(kRows);
  std::vector<cuda::FastPart> parts(kRows * shape.blocks);
  std::vector<cuda::TopEntry> lists(kRows * shape.blocks * 2 * 10);
  const cuda::BatchScratch scratch{rows.data(), parts.data(), lists.data(), nullptr,
                                   {},          shape.blocks, 10,           true};
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    EmulatedCluster cluster(shape.blocks, shape.threads, shape.cache, seed);
    cluster.run([&](EmulatedThread& thread) {
      for (std::uint64_t row = 0; row < kRows; ++row) {
        cuda::measure_row<DRIFTGATE_F32>(thread, view, scratch, row, shape.cache);
      }
    });
    for (std::size_t i = 0; i < kRows; ++i) {
      CAPTURE(seed);
      CAPTURE(i);
      driftgate_row got{}, wanted{};
      const bool fast = cuda::finish_fast_row(view, scratch, i, got);
      CHECK(fast == run_fast(Staged(alone[i]).view, shape, kSeed, wanted));
      CHECK(fast == (i != 2));
      if (fast) CHECK(std::memcmp(&got, &wanted, sizeof(got)) == 0);
    }
  }
}

TEST_CASE("identical rows have figures of exactly 0 on the device") {
  std::mt19937_64 random(kSeed + 4);
  Case test = ordinary_case(random, 3'001, 0, DRIFTGATE_BF16);
  bool fast = false;
  const driftgate_row row = run(test, {}, kSeed, &fast);
  CHECK(fast);
  for (const Metric metric : {Metric::tv, Metric::kl_train_inf, Metric::kl_inf_train, Metric::js,
                              Metric::chi2, Metric::hellinger2, Metric::logit_span, Metric::log_ratio}) {
    CHECK(value(row, metric) == 0);
  }
  CHECK(row.head_tail_tv == 0);
  CHECK(value(row, Metric::topk_overlap) == 1);
}

TEST_CASE("masked columns stay in the float32 form and count for nothing") {
  std::mt19937_64 random(kSeed + 8);
  for (int i = 0; i < 24; ++i) {
    const auto dtype = static_cast<std::uint32_t>(i % 3);
    const Case plain = ordinary_case(random, 4'003, 0.01, dtype);
    std::vector<double> train = plain.pair.train, inf = plain.pair.inf;
    const std::size_t padding = i < 6 ? 1 : random() % 600;  // as vocabularies are padded
    for (std::size_t v = train.size() - padding; v < train.size(); ++v) train[v] = inf[v] = kMasked;
    for (std::size_t v = 1; v < train.size(); ++v) {
      if (i >= 12 && random() % 50 == 0) train[v] = inf[v] = kMasked;
    }
    const Case test = case_of(train, inf, dtype, 0);
    CAPTURE(i);
    bool fast = false;
    const driftgate_row row = run(test, {1U << (i % 3), 64, i % 2 == 0 ? 4'096U : 40U}, kSeed, &fast);
    CHECK(fast);
    CHECK(disagreement(oracle(test.pair), row.values) == "");
    inf.back() = 1.0;  // a mask in one kernel is none
    CHECK(run(case_of(train, inf, dtype, 0), {}, kSeed).status == DRIFTGATE_ROW_NONFINITE);
  }
}

TEST_CASE("blocks of masked columns are no part of a row on the device, however low or high its logits are") {
  std::mt19937_64 random(kSeed + 9);
  for (const double level : {-2'000.0, -800.0, 0.0, 800.0, 2'000.0}) {
    for (const std::size_t masked : {600U, 2'100U, 4'000U}) {
      const Case plain = ordinary_case(random, 4'800, 0.01, DRIFTGATE_F32);
      std::vector<double> train = plain.pair.train, inf = plain.pair.inf;
      for (std::size_t v = 0; v < train.size(); ++v) {
        train[v] = v < masked ? kMasked : static_cast<float>(train[v] + level);
        inf[v] = v < masked ? kMasked : static_cast<float>(inf[v] + level);
      }
      const Case test = case_of(train, inf, DRIFTGATE_F32, 4'100);
      CAPTURE(level);
      CAPTURE(masked);
      const driftgate_row row = run(test, {4, 64, 4'096U}, kSeed, nullptr);
      CHECK(disagreement(oracle(test.pair), row.values) == "");
    }
  }
}

TEST_CASE("rows that float32 cannot measure are measured accurately in the float64 form") {
  std::mt19937_64 random(kSeed + 5);
  const Case plain = ordinary_case(random, 3'000, 0.01, DRIFTGATE_F32);
  const auto changed = [&](auto change) {
    std::vector<double> train = plain.pair.train, inf = plain.pair.inf;
    change(train, inf);
    const Case test = case_of(train, inf, DRIFTGATE_F32);
    bool fast = true;
    const driftgate_row row = run(test, {}, kSeed, &fast);
    CHECK_FALSE(fast);
    CHECK(disagreement(oracle(test.pair), row.values) == "");
  };
  using Logits = std::vector<double>;
  changed([](Logits&, Logits& inf) { inf[100] += 3; });  // a large drift
  changed([](Logits& train, Logits& inf) {               // of one block's columns nearly all
    for (std::size_t v = 5; v < 1'500; ++v) train[v] = inf[v] = kMasked;
  });
  changed([](Logits& train, Logits& inf) { train = inf = Logits(3'000, 1.0); });  // 3,000 ties for the top
  changed([](Logits& train, Logits& inf) {
    for (double& z : train) z *= 1e31;
    for (double& y : inf) y *= 1e31;
  });
}

TEST_CASE("the device reports which rows have no figures") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::mt19937_64 random(kSeed + 6);
  for (const std::size_t columns : {20U, 3'003U}) {
    const Case plain = ordinary_case(random, columns, 0.01, DRIFTGATE_F32);
    for (const double bad : {kNaN, -kMasked, kMasked}) {
      for (const std::size_t at : {std::size_t{0}, columns / 2, columns - 1}) {
        std::vector<double> train = plain.pair.train;
        train[at] = bad;
        const driftgate_row row = run(case_of(train, plain.pair.inf, DRIFTGATE_F32), {}, kSeed);
        CHECK(row.status == DRIFTGATE_ROW_NONFINITE);
        CHECK(value(row, Metric::nonfinite) == 1);
        CHECK(std::isnan(value(row, Metric::tv)));
      }
    }
    const std::vector<double> none(columns, kMasked);
    CHECK(run(case_of(none, none, DRIFTGATE_BF16), {}, kSeed).status == DRIFTGATE_ROW_ALL_MASKED);
    std::vector<double> train = plain.pair.train, inf = plain.pair.inf;
    train[7] = inf[7] = kMasked;
    CHECK(run(case_of(train, inf, DRIFTGATE_F32, 7), {}, kSeed).status == DRIFTGATE_ROW_TOKEN_MASKED);
  }
}
