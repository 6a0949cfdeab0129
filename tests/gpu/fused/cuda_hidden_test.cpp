#include <doctest/doctest.h>

#include <cstring>
#include <memory>

#include "tests/gpu/effort.hpp"
#include "tests/gpu/fused/emulated_hidden.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261123;
using Small = cuda::TileShape<1, 1>;
using Square = cuda::TileShape<2, 2>;
using Device = cuda::TileShape<4, 2>;  // of kernels.cu

double value(const driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

/// Under a sanitizer an eighth.
std::uint32_t fewer(int count) {
  return static_cast<std::uint32_t>(effort(count));
}

/// A case with its heads on the emulated device.
struct OnDevice {
  explicit OnDevice(const HiddenCase& from) : test(from), opened(open_case(test, folder)) {
    pair = fused::pair_heads(fused::best_product(), opened.train.head(), opened.inf.head(), test.temperature);
    heads = std::make_unique<EmulatedHeads>(pair, kSeed);
  }
  template <class Shape>
  [[nodiscard]] HiddenOutcome run(bool core = false, const HiddenPlan& plan = {},
                                  std::uint64_t seed = 1) const {
    return run_hidden<Shape>(test, pair, *heads, core, plan, seed);
  }
  HiddenCase test;
  TemporaryFolder folder;
  OpenedCase opened;
  fused::HeadPair pair;
  std::unique_ptr<EmulatedHeads> heads;
};

/// One head of `vocabulary` tokens; logits with a standard deviation of `size`.
HiddenCase plain_case(std::mt19937_64& random, std::uint32_t vocabulary, std::uint32_t width,
                      std::size_t rows, double size, double drift, std::uint32_t dtype) {
  std::normal_distribution<double> normal;
  std::vector<double> weights, train, inf;
  for (std::size_t i = 0; i < std::size_t{vocabulary} * width; ++i) {
    weights.push_back(size / std::sqrt(static_cast<double>(width)) * normal(random));
  }
  for (std::size_t i = 0; i < rows * width; ++i) {
    train.push_back(normal(random));
    inf.push_back(train.back() + drift / size * normal(random));
  }
  HiddenCase out;
  out.head_train = {vocabulary, width, store(weights, DRIFTGATE_BF16), {}, 1, 0};
  out.head_inf = out.head_train;
  out.train.width = out.inf.width = width;
  out.train.hidden = store(train, dtype), out.inf.hidden = store(inf, dtype);
  for (std::size_t row = 0; row < rows; ++row) {
    out.train.sequences.push_back(static_cast<std::int32_t>(row));
    out.train.tokens.push_back(static_cast<std::int32_t>(random() % vocabulary));
  }
  out.inf.sequences = out.train.sequences, out.inf.tokens = out.train.tokens;
  return out;
}

}  // namespace

TEST_CASE("digits reproduce the number that they were made from, and the last digit is rounded") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const double largest =
        std::ldexp(std::generate_canonical<double, 53>(random) + 1e-9, static_cast<int>(random() % 60) - 30);
    const int exponent = cuda::line_exponent(largest);
    const double unit = cuda::line_unit(exponent);
    CAPTURE(largest);
    CHECK(largest <= 8'355'711 * unit);
    CHECK(largest > 4'000'000 * unit);
    CHECK(static_cast<double>(cuda::line_scale(exponent)) == unit * 65'536);
    const double part = std::generate_canonical<double, 53>(random) * 2 - 1;
    for (const double x : {largest, -largest, largest * part, 0.0}) {
      const cuda::Digits digits = cuda::digits_of(x, 1 / unit);
      const double back = (digits.value[0] * 65'536.0 + digits.value[1] * 256.0 + digits.value[2]) * unit;
      CHECK(std::abs(back - x) <= unit / 2);
    }
  }
}

namespace {

/// Random digits for all lines; `values` gets them by order, line after line.
void fill_digits(std::mt19937_64& random, std::uint32_t width, LinesMemory& lines,
                 std::vector<std::int64_t>* values) {
  std::fill(lines.digits.begin(), lines.digits.end(), static_cast<signed char>(0));
  for (unsigned digit = 0; digit < cuda::kDigitCount; ++digit) {
    for (std::uint32_t line = 0; line < lines.view.lines; ++line) {
      for (std::uint32_t k = 0; k < width; ++k) {
        const auto value = static_cast<signed char>(static_cast<int>(random() % 256) - 128);
        lines.digits[cuda::digit_at(lines.view, line, k, digit)] = value;
        values[digit].push_back(value);
      }
    }
  }
}

}  // namespace

TEST_CASE("a tile's products are those of its digits, order by order") {
  constexpr std::uint32_t kWidth = 150;
  std::mt19937_64 random(kSeed + 9);
  LinesMemory rows, columns;
  rows.make(Square::kRows, kWidth, false), columns.make(2 * Square::kColumns, kWidth, true);
  std::vector<std::int64_t> left[cuda::kDigitCount], right[cuda::kDigitCount];
  fill_digits(random, kWidth, rows, left);
  fill_digits(random, kWidth, columns, right);
  const auto order = [&](std::uint32_t row, std::uint32_t column, unsigned of) {
    std::int64_t sum = 0;
    for (unsigned i = 0; i <= of && i < cuda::kDigitCount; ++i) {
      if (of - i >= cuda::kDigitCount) continue;
      for (std::uint32_t k = 0; k < kWidth; ++k) {
        sum += left[i][std::size_t{row} * kWidth + k] * right[of - i][std::size_t{column} * kWidth + k];
      }
    }
    return sum;
  };
  EmulatedCluster cluster(1, Square::kThreads, 0, 3);
  cluster.give_shared(Square::kStageBytes);
  std::size_t wrong = 0;
  cluster.run([&](EmulatedThread& thread) {
    cuda::Accumulators sums;
    cuda::clear(sums);
    const cuda::Operands operands{rows.view, columns.view};
    for (const bool deep : {true, false}) {
      for (std::uint32_t chunk = 0; chunk < rows.view.chunks; ++chunk) {
        cuda::load_stage<Square>(thread, operands, 0, Square::kColumns, chunk, cluster.ring(0));
        thread.commit();
        thread.wait(0);
        thread.sync();
        cuda::multiply_stage<Square>(thread, cluster.ring(0), deep, sums);
        thread.sync();
      }
      if (deep) cuda::carry(sums);
    }
    const unsigned lane = thread.thread() % 32, warp = thread.thread() / 32;
    for (unsigned m = 0; m < cuda::kRowTiles; ++m) {
      for (unsigned n = 0; n < cuda::kColumnTiles; ++n) {
        for (unsigned i = 0; i < 4; ++i) {
          const std::uint32_t row = warp / 2 * 32 + m * 16 + i / 2 * 8 + lane / 4;
          const std::uint32_t column = Square::kColumns + warp % 2 * 32 + n * 8 + lane % 4 * 2 + i % 2;
          const std::int64_t last = order(row, column, 2) + ((order(row, column, 3) + 128) >> 8);
          wrong += sums.values[0][m][n][i] == order(row, column, 0) ? 0U : 1U;
          wrong += sums.values[1][m][n][i] == order(row, column, 1) ? 0U : 1U;
          wrong += sums.values[2][m][n][i] == last ? 0U : 1U;
        }
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("every thread of a block knows how many of its rows take more work, whichever thread comes first") {
  constexpr std::uint32_t kRows = 2 * Square::kRows - 5;  // the second block is not full
  std::vector<cuda::HiddenInfo> info(kRows);
  std::vector<cuda::HiddenState> states(kRows);
  // None of the rows that the first thread counts: what it clears is then what others added.
  std::uint32_t deep[2] = {0, 0}, wanted[2] = {0, 0};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    if (row % Square::kRows == 0) continue;
    info[row].deep = row % 3 == 0 ? 1 : 0, states[row].second = row % 5 == 0 ? 1 : 0;
    deep[row / Square::kRows] += info[row].deep, wanted[row / Square::kRows] += states[row].second;
  }
  const cuda::HeadsView heads{};
  cuda::HiddenBatch batch{};
  cuda::HiddenScratch scratch{};
  batch.rows = kRows, scratch.info = info.data(), scratch.states = states.data();
  std::size_t wrong = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (unsigned at = 0; at < 2; ++at) {
      EmulatedCluster cluster(1, Square::kThreads, 0, seed);
      cluster.give_shared(sizeof(cuda::SweepShared<Square>));
      cluster.run([&](EmulatedThread& thread) {
        cuda::SweepBlock<Square, EmulatedThread> block(thread, heads, batch, scratch, at * Square::kRows);
        block.clear_shared(true);
        wrong += block.shared().deep == deep[at] && block.shared().wanted == wanted[at] ? 0U : 1U;
        wrong += block.shared().sums[0][thread.thread()] == 0 ? 0U : 1U;
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("hidden states on the device give the figures of logits formed in long double") {
  std::mt19937_64 random(kSeed + 1);
  std::size_t measured = 0, not_measured = 0;
  for (int i = 0; i < effort(24); ++i) {
    const OnDevice device(random_hidden_case(random));
    const HiddenCase& test = device.test;
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    REQUIRE(device.heads->usable);
    // With all_exact every column is formed in float64, as in small vocabularies.
    HiddenPlan plan;
    plan.all_exact = i % 4 == 0 ? cuda::kAllExact : 0;
    const HiddenOutcome got = device.run<Small>(false, plan);
    for (std::size_t row = 0; row < test.rows(); ++row) {
      CAPTURE(row);
      if (got.rows[row].status == DRIFTGATE_ROW_NOT_MEASURED) {
        ++not_measured;
        continue;
      }
      ++measured;
      REQUIRE(got.rows[row].status == DRIFTGATE_ROW_OK);
      CHECK(fault_of(oracle(test.pair(row)), got.rows[row]) == "");
      CHECK(got.rows[row].head_tail_tv >= value(got.rows[row], Metric::tv));
    }
  }
  MESSAGE("measured " << measured << ", not measured " << not_measured);
  CHECK(measured > static_cast<std::size_t>(effort(40)));
  CHECK(not_measured * 20 < measured);
}

TEST_CASE("figures remain accurate when columns are summed in float32") {
  std::mt19937_64 random(kSeed + 2);
  std::size_t swept = 0, columns = 0, measured = 0;
  for (int i = 0; i < effort(6); ++i) {
    const OnDevice device(random_hidden_case(random, 2'100 + static_cast<std::uint32_t>(random() % 500)));
    const HiddenCase& test = device.test;
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const HiddenOutcome got = device.run<Square>();
    for (std::size_t row = 0; row < test.rows(); ++row) {
      CAPTURE(row);
      if (got.rows[row].status == DRIFTGATE_ROW_NOT_MEASURED) continue;
      CHECK(fault_of(oracle(test.pair(row)), got.rows[row]) == "");
      ++measured;
      columns += device.pair.tokens.size();
      swept += device.pair.tokens.size() - got.states[row].exact;
    }
  }
  MESSAGE("of " << columns << " columns " << swept << " in float32");
  CHECK(measured >= static_cast<std::size_t>(effort(8)));
  CHECK(swept * 2 > columns);
}

TEST_CASE("the shape of the device's kernel, and every number of stages and shares, give the same products") {
  std::mt19937_64 random(kSeed + 3);
  const OnDevice device(plain_case(random, fewer(2'300), 100, 5, 4, 0.01, DRIFTGATE_F32));
  const HiddenOutcome first = device.run<Device>();
  for (std::size_t row = 0; row < device.test.rows(); ++row) {
    CAPTURE(row);
    REQUIRE(first.rows[row].status == DRIFTGATE_ROW_OK);
    CHECK(fault_of(oracle(device.test.pair(row)), first.rows[row]) == "");
  }
  HiddenPlan plan;
  plan.stages = 3;
  const HiddenOutcome stages = device.run<Device>(false, plan, 7);  // and in another order of threads
  CHECK(std::memcmp(first.rows.data(), stages.rows.data(), first.rows.size() * sizeof(driftgate_row)) == 0);
  plan.splits = 5, plan.threads = 128;
  const HiddenOutcome shares = device.run<Square>(false, plan, 3);
  for (std::size_t row = 0; row < device.test.rows(); ++row) {
    CHECK(shares.states[row].exact == first.states[row].exact);
    for (const Metric metric : {Metric::tv, Metric::kl_train_inf, Metric::js, Metric::entropy_train}) {
      CHECK(value(shares.rows[row], metric) == doctest::Approx(value(first.rows[row], metric)).epsilon(1e-7));
    }
  }
}

TEST_CASE("equal hidden states under one head give exactly no drift on the device") {
  std::mt19937_64 random(kSeed + 4);
  const OnDevice device(plain_case(random, fewer(2'400), 70, 3, 3, 0, DRIFTGATE_BF16));
  const HiddenOutcome got = device.run<Square>();
  for (std::size_t i = 0; i < device.test.rows(); ++i) {
    const driftgate_row& row = got.rows[i];
    REQUIRE(row.status == DRIFTGATE_ROW_OK);
    CHECK(got.states[i].exact < 1'200);
    for (const Metric metric : {Metric::logit_max_abs, Metric::logit_rms, Metric::logit_span, Metric::tv,
                                Metric::kl_train_inf, Metric::kl_inf_train, Metric::js, Metric::hellinger2,
                                Metric::chi2, Metric::top1_flip, Metric::log_ratio}) {
      CHECK(value(row, metric) == 0);
    }
    CHECK(value(row, Metric::entropy_train) == value(row, Metric::entropy_inf));
    CHECK(value(row, Metric::topk_overlap) == 1);
    CHECK(row.head_tail_tv == 0);
  }
}

TEST_CASE("core metrics take one product on the device and leave the other figures out") {
  std::mt19937_64 random(kSeed + 5);
  const OnDevice device(plain_case(random, fewer(2'200), 64, 4, 3, 1e-3, DRIFTGATE_F32));
  const HiddenOutcome all = device.run<Square>(), core = device.run<Square>(true);
  for (std::size_t row = 0; row < device.test.rows(); ++row) {
    CHECK(core.states[row].second == 0);
    for (const Metric metric : {Metric::logit_max_abs, Metric::logit_span, Metric::top1_flip,
                                Metric::log_ratio, Metric::logprob_train, Metric::logprob_inf}) {
      CHECK(value(core.rows[row], metric) == value(all.rows[row], metric));
    }
    for (const Metric metric : {Metric::kl_train_inf, Metric::kl_inf_train}) {
      CHECK(value(core.rows[row], metric) == doctest::Approx(value(all.rows[row], metric)).epsilon(5e-7));
    }
    CHECK(std::isnan(value(core.rows[row], Metric::tv)));
    CHECK(std::isnan(core.rows[row].head_tail_tv));
  }
}

TEST_CASE("hidden states with a few large elements use products of the fourth order and are accurate") {
  std::mt19937_64 random(kSeed + 6);
  HiddenCase test = plain_case(random, 2'100, 96, 3, 3, 1e-3, DRIFTGATE_F32);
  for (HiddenDraft* draft : {&test.train, &test.inf}) {
    std::vector<double> values = draft->hidden.values;
    for (std::size_t row = 0; row < 2; ++row) values[row * 96 + 17] *= 20, values[row * 96 + 40] *= -12;
    draft->hidden = store(values, DRIFTGATE_F32);
  }
  const OnDevice device(test);
  const HiddenOutcome got = device.run<Square>();
  for (std::size_t row = 0; row < test.rows(); ++row) {
    CAPTURE(row);
    CAPTURE(got.info[row].error_z);
    if (row < 2) CHECK(got.info[row].deep == 1);
    REQUIRE(got.rows[row].status == DRIFTGATE_ROW_OK);
    CHECK(fault_of(oracle(test.pair(row)), got.rows[row]) == "");
  }
}

TEST_CASE("rows that are not finite, masked or too large do not affect other rows") {
  std::mt19937_64 random(kSeed + 7);
  HiddenCase test = plain_case(random, 2'100, 40, 6, 3, 0.01, DRIFTGATE_F32);
  const auto spoil = [&](HiddenDraft& draft, std::size_t row, double bad) {
    std::vector<double> values = draft.hidden.values;
    values[row * 40 + 39] = bad;
    draft.hidden = store(values, DRIFTGATE_F32);
  };
  spoil(test.train, 1, std::numeric_limits<double>::quiet_NaN());
  spoil(test.inf, 2, std::numeric_limits<double>::infinity());
  spoil(test.train, 3, -std::numeric_limits<double>::infinity());
  spoil(test.inf, 3, std::numeric_limits<double>::quiet_NaN());
  spoil(test.inf, 4, 1e36);
  test.head_train.bias.assign(2'100, 0.25);
  for (const std::size_t masked : {7U, 900U, 2'099U}) test.head_train.bias[masked] = kMaskedBias;
  test.head_inf = test.head_train;
  test.train.tokens = test.inf.tokens = {8, 8, 8, 8, 8, 900};
  const OnDevice device(test);
  const HiddenOutcome got = device.run<Square>();
  const double nonfinite[] = {0, 2'097, 2'097, 2 * 2'097, std::numeric_limits<double>::quiet_NaN(), 0};
  const std::uint32_t status[] = {DRIFTGATE_ROW_OK,           DRIFTGATE_ROW_NONFINITE,
                                  DRIFTGATE_ROW_NONFINITE,    DRIFTGATE_ROW_NONFINITE,
                                  DRIFTGATE_ROW_NOT_MEASURED, DRIFTGATE_ROW_TOKEN_MASKED};
  for (std::size_t row = 0; row < 6; ++row) {
    CAPTURE(row);
    CHECK(got.rows[row].status == status[row]);
    if (!std::isnan(nonfinite[row])) CHECK(value(got.rows[row], Metric::nonfinite) == nonfinite[row]);
  }
  CHECK(fault_of(oracle(test.pair(0)), got.rows[0]) == "");
}

TEST_CASE("a weight that is not finite makes its head unusable on the device") {
  std::mt19937_64 random(kSeed + 8);
  HiddenCase test = plain_case(random, 300, 30, 1, 3, 0.01, DRIFTGATE_F32);
  std::vector<double> weights = test.head_train.weight.values;
  weights[77] = std::numeric_limits<double>::quiet_NaN();
  test.head_train.weight = store(weights, DRIFTGATE_F32);
  CHECK_FALSE(OnDevice(test).heads->usable);
}

TEST_CASE("a row whose floor is too high is not measured, nor one whose omitted digits matter") {
  const double top = 10, mass = 3;
  CHECK(cuda::floor_holds(-HUGE_VAL, top, mass, 9));
  CHECK(cuda::floor_holds(top + std::log(2 * cuda::kExactShare) - 1e-9, top, mass, 9));
  CHECK_FALSE(cuda::floor_holds(top + std::log(2 * cuda::kExactShare) + 1e-9, top, mass, 9));
  CHECK_FALSE(cuda::floor_holds(2, top, mass, 2));
  CHECK(cuda::divergence_holds(1e-9, 1, 1e-6));
  CHECK_FALSE(cuda::divergence_holds(1e-7, 1, 1e-10));
  CHECK(cuda::distance_holds(1e-9, 1, 1, 1e-3));
  CHECK_FALSE(cuda::distance_holds(1e-6, 1, 1, 1e-3));
  CHECK(cuda::weights_hold(4e-6, 0.5, 0.5));
  CHECK_FALSE(cuda::weights_hold(1e-5, 0.5, 0.5));
}
