#include "gpu/cpu/split_rows.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "gpu/backend/backend_loader.hpp"
#include "tests/gpu/effort.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 2'027;

bool same(const driftgate_row& a, const driftgate_row& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

/// The same row as often as asked, in parts of at most two tiles.
std::vector<driftgate_row> evaluate_in_parts(const cpu::TileKernel& kernel, const Case& test,
                                             std::uint32_t threads, std::uint64_t rows,
                                             std::uint32_t metrics = DRIFTGATE_METRICS_ALL) {
  const auto vocabulary = static_cast<std::uint32_t>(test.pair.train.size());
  const std::vector<std::int64_t> tokens(rows, *test.pair.token);
  driftgate_batch batch{sizeof(driftgate_batch),
                        vocabulary,
                        rows,
                        test.train.view(vocabulary),
                        test.inf.view(vocabulary),
                        tokens.data(),
                        test.pair.temperature};
  batch.train.row_stride_bytes = batch.inf.row_stride_bytes = 0;
  cpu::SplitRows engine(kernel, threads, vocabulary, test.pair.top_k, metrics, 2 * cpu::kTileColumns);
  std::vector<driftgate_row> out(rows);
  engine.measure(batch, out);
  return out;
}

void check_parts(const cpu::TileKernel& kernel, const Case& test) {
  CAPTURE(kernel.name);
  CAPTURE(kSeed);
  CAPTURE(test.text);
  const driftgate_row one = evaluate_in_parts(kernel, test, 1, 1)[0];
  REQUIRE(one.status == DRIFTGATE_ROW_OK);
  REQUIRE(disagreement(oracle(test.pair), one.values) == "");
  for (const std::uint32_t threads : {2U, 3U, 7U}) {
    for (const std::uint64_t rows : {1U, 2U, 5U}) {
      CAPTURE(threads);
      CAPTURE(rows);
      for (const driftgate_row& row : evaluate_in_parts(kernel, test, threads, rows)) REQUIRE(same(row, one));
    }
  }
}

}  // namespace

TEST_CASE("rows cut into parts are those of the oracle, the same bits for any threads and rows of a batch") {
  for (const cpu::TileKernel* kernel : kernels()) {
    std::mt19937_64 random(kSeed);
    for (int i = 0; i < effort(40); ++i) {
      const Case test = i % 2 == 0 ? random_case(random) : peaked_case(random);
      if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
      CAPTURE(i);
      check_parts(*kernel, test);
    }
  }
}

TEST_CASE("core metrics of rows cut into parts are those of whole rows") {
  const Metric core[] = {Metric::logit_max_abs, Metric::logit_span,  Metric::kl_train_inf,
                         Metric::kl_inf_train,  Metric::top1_flip,   Metric::nonfinite,
                         Metric::logprob_train, Metric::logprob_inf, Metric::log_ratio};
  for (const cpu::TileKernel* kernel : kernels()) {
    std::mt19937_64 random(kSeed + 1);
    for (int i = 0; i < effort(60); ++i) {
      const Case test = i % 2 == 0 ? random_case(random) : peaked_case(random);
      if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
      CAPTURE(kernel->name);
      CAPTURE(i);
      CAPTURE(test.text);
      const driftgate_row row = evaluate_in_parts(*kernel, test, 2, 1, DRIFTGATE_METRICS_CORE)[0];
      Row wanted = oracle(test.pair);
      driftgate_row judged = row;
      // What core metrics leave out is not judged.
      for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
        const bool left_out = std::ranges::find(core, static_cast<Metric>(metric)) == std::end(core);
        if (!left_out) continue;
        REQUIRE(std::isnan(row.values[metric]));
        judged.values[metric] = static_cast<double>(wanted[metric]);
      }
      REQUIRE(disagreement(wanted, judged.values) == "");
      REQUIRE(same(row, evaluate_in_parts(*kernel, test, 1, 1, DRIFTGATE_METRICS_CORE)[0]));
    }
  }
}

TEST_CASE("rows that are not finite or all masked say so however they are cut") {
  std::vector<double> values(9'000, 0.5);
  Case test;
  test.pair = {values, values, 1, 8'999, 10};
  const auto measured = [&](const std::vector<double>& train, const std::vector<double>& inf) {
    test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
    return evaluate_in_parts(cpu::best_kernel(), test, 3, 2)[1];
  };
  CHECK(measured(values, values).values[static_cast<std::size_t>(Metric::tv)] == 0);
  auto broken = values;
  broken[1] = broken[8'999] = std::nan("");
  const driftgate_row row = measured(values, broken);
  CHECK(row.status == DRIFTGATE_ROW_NONFINITE);
  CHECK(row.values[static_cast<std::size_t>(Metric::nonfinite)] == 2);
  const std::vector<double> masked(9'000, kMasked);
  CHECK(measured(masked, masked).status == DRIFTGATE_ROW_ALL_MASKED);
  auto padded = values;
  std::fill(padded.begin() + 5'000, padded.end(), kMasked);
  CHECK(measured(padded, padded).status == DRIFTGATE_ROW_TOKEN_MASKED);
}

TEST_CASE("the engine measures long rows alike with any number of threads, alone and among others") {
  constexpr std::uint32_t kColumns = cpu::kMostWholeColumns + 4'099;
  std::mt19937_64 random(kSeed + 2);
  std::normal_distribution<float> normal;
  std::vector<float> train(3 * kColumns), inf(3 * kColumns);
  for (std::size_t i = 0; i < train.size(); ++i) {
    train[i] = 3 * normal(random);
    inf[i] = train[i] + (i < kColumns ? 0.01F : 3.0F) * normal(random);
  }
  const std::int64_t tokens[] = {5, kColumns - 1, 70'000};
  const auto measured = [&](std::uint32_t threads, std::uint64_t first, std::uint64_t rows) {
    auto backend = Backend::open("cpu", threads, 10);
    REQUIRE(backend);
    const std::uint64_t stride = std::uint64_t{4} * kColumns;
    const driftgate_batch batch{sizeof(driftgate_batch),
                                kColumns,
                                rows,
                                {train.data() + first * kColumns, stride, DRIFTGATE_F32, 0},
                                {inf.data() + first * kColumns, stride, DRIFTGATE_F32, 0},
                                tokens + first,
                                1.0};
    std::vector<driftgate_row> out(rows);
    REQUIRE(backend->measure(batch, out));
    return out;
  };
  const auto all = measured(1, 0, 3);
  for (const std::uint32_t threads : {2U, 5U}) {
    const auto others = measured(threads, 0, 3);
    for (std::size_t row = 0; row < 3; ++row) {
      CHECK(same(others[row], all[row]));
      CHECK(same(measured(threads, row, 1)[0], all[row]));
    }
  }
  for (std::size_t row = 0; row < 2; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * kColumns);
    const auto part = [&](const std::vector<float>& from) {
      return std::vector<double>(from.begin() + begin, from.begin() + begin + kColumns);
    };
    const Pair pair{part(train), part(inf), 1, tokens[row], 10};
    CHECK(disagreement(oracle(pair), all[row].values) == "");
  }
}
