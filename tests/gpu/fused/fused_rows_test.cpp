#include "gpu/fused/fused_rows.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/drift.hpp"
#include "tests/gpu/fused/hidden_case.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double value(const driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

fused::HeadPair heads_of(const OpenedCase& opened, const HiddenCase& test) {
  const bool bf16 = test.train.hidden.dtype == DRIFTGATE_BF16 && test.inf.hidden.dtype == DRIFTGATE_BF16;
  return fused::pair_heads(fused::best_product(), opened.train.head(), opened.inf.head(), test.temperature,
                           bf16);
}

bool same_bytes(const driftgate_row& a, const driftgate_row& b) {
  for (std::size_t i = 0; i < DRIFTGATE_ROW_VALUES; ++i) {
    if (std::bit_cast<std::uint64_t>(a.values[i]) != std::bit_cast<std::uint64_t>(b.values[i])) return false;
  }
  return a.status == b.status &&
         std::bit_cast<std::uint64_t>(a.head_tail_tv) == std::bit_cast<std::uint64_t>(b.head_tail_tv);
}

/// Hidden states and one head in bf16, some of whose drifts are far from bf16 numbers.
HiddenCase bf16_case(std::mt19937_64& random) {
  HiddenCase out = random_hidden_case(random);
  for (HiddenDraft* draft : {&out.train, &out.inf}) {
    for (double& value : draft->hidden.values) {
      if (random() % 16 == 0) value *= std::pow(2.0, -static_cast<double>(random() % 24));
    }
    draft->hidden = store(draft->hidden.values, DRIFTGATE_BF16);
  }
  out.head_inf.weight = out.head_train.weight = store(out.head_train.weight.values, DRIFTGATE_BF16);
  return out;
}

/// One head of `vocabulary` tokens and rows of the given drift.
HiddenCase simple_case(std::uint32_t vocabulary, std::uint32_t width, std::size_t rows, double drift,
                       std::uint32_t seed = 5) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  HiddenCase out;
  std::vector<double> weights, train, inf;
  for (std::size_t i = 0; i < std::size_t{vocabulary} * width; ++i) {
    weights.push_back(3 / std::sqrt(static_cast<double>(width)) * normal(random));
  }
  for (std::size_t i = 0; i < rows * width; ++i) {
    train.push_back(normal(random));
    inf.push_back(train.back() + drift / 3 * normal(random));
  }
  out.head_train = {vocabulary, width, store(weights, DRIFTGATE_BF16), {}, 1, 0};
  out.head_inf = out.head_train;
  out.train.width = out.inf.width = width;
  out.train.hidden = store(train, DRIFTGATE_F32);
  out.inf.hidden = store(inf, DRIFTGATE_F32);
  for (std::size_t row = 0; row < rows; ++row) {
    out.train.sequences.push_back(static_cast<std::int32_t>(row / 8));
    out.train.tokens.push_back(static_cast<std::int32_t>(random() % vocabulary));
  }
  out.inf.sequences = out.train.sequences;
  out.inf.tokens = out.train.tokens;
  return out;
}

/// Compares each row with logits formed in long double. Returns how many were compared: none of a case that
/// is not multiplied by pairs, where `pairs` alone are looked at.
std::size_t check_rows(const HiddenCase& test, const fused::ProductKernel& kernel, bool pairs = false) {
  CAPTURE(test.text);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  const fused::HeadPair heads = heads_of(opened, test);
  if (pairs && heads.pairs == nullptr) return 0;
  const auto got = evaluate(test, heads, kernel);
  for (std::size_t row = 0; row < test.rows(); ++row) {
    CAPTURE(row);
    REQUIRE(got[row].status == DRIFTGATE_ROW_OK);
    CHECK(fault_of(oracle(test.pair(row)), got[row]) == "");
    CHECK(got[row].head_tail_tv >= value(got[row], Metric::tv));
  }
  return test.rows();
}

}  // namespace

TEST_CASE("figures of hidden states agree with those of logits formed in long double") {
  constexpr std::uint64_t kSeed = 41;
  std::mt19937_64 random(kSeed);
  std::size_t rows = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(kSeed);
    CAPTURE(i);
    const auto all = products();
    rows += check_rows(random_hidden_case(random), *all[static_cast<std::size_t>(i) % all.size()]);
  }
  CHECK(rows > 900);
}

TEST_CASE("figures by pairs of bf16 agree with those of logits formed in long double") {
  if (fused::best_pairs() == nullptr) {
    MESSAGE("this processor has no AVX512_BF16");
    return;
  }
  constexpr std::uint64_t kSeed = 43;
  std::mt19937_64 random(kSeed);
  std::size_t rows = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(kSeed);
    CAPTURE(i);
    rows += check_rows(bf16_case(random), fused::best_product(), true);
  }
  CHECK(rows > 500);
}

TEST_CASE("pairs of bf16 are taken where both captures and one head without a large centre are bf16") {
  const auto pairs_of = [](HiddenCase test) {
    const TemporaryFolder folder;
    const OpenedCase opened = open_case(test, folder);
    return heads_of(opened, test).pairs;
  };
  const auto in_bf16 = [](HiddenCase test) {
    test.train.hidden = store(test.train.hidden.values, DRIFTGATE_BF16);
    test.inf.hidden = store(test.inf.hidden.values, DRIFTGATE_BF16);
    return test;
  };
  const HiddenCase wide = simple_case(300, 40, 4, 0.01), half = in_bf16(wide);
  CHECK(pairs_of(half) == fused::best_pairs());
  CHECK(pairs_of(wide) == nullptr);
  HiddenCase one = half;
  one.inf.hidden = wide.inf.hidden;
  CHECK(pairs_of(one) == nullptr);
  const auto with_head = [&](auto change, std::uint32_t dtype = DRIFTGATE_BF16) {
    HiddenCase test = half;
    std::vector<double> weights = half.head_train.weight.values;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = change(weights[i], i % 40);
    test.head_train.weight = test.head_inf.weight = store(weights, dtype);
    return pairs_of(test);
  };
  const double spread = 3 / std::sqrt(40.0);
  CHECK(with_head([](double w, std::size_t) { return w; }, DRIFTGATE_F32) == nullptr);
  CHECK(with_head([&](double w, std::size_t) { return w + 0.8 * spread; }) == fused::best_pairs());
  CHECK(with_head([&](double w, std::size_t) { return w + 1.2 * spread; }) == nullptr);
  CHECK(with_head([&](double w, std::size_t k) { return k == 7 ? w + 1.7 * spread : w; }) ==
        fused::best_pairs());
  CHECK(with_head([&](double w, std::size_t k) { return k == 7 ? w + 2.5 * spread : w; }) == nullptr);
  CHECK(with_head([](double w, std::size_t k) { return k == 7 ? 1.0 : w; }) == nullptr);
  HiddenCase two = half;
  two.same_head = false;
  two.head_inf.weight.values[5] += 1;
  two.head_inf.weight = store(two.head_inf.weight.values, DRIFTGATE_BF16);
  CHECK(pairs_of(two) == nullptr);
}

TEST_CASE("heads that differ in one weight are not treated as one head") {
  HiddenCase test = simple_case(300, 64, 4, 0);
  test.same_head = false;
  test.head_inf.weight = store(test.head_train.weight.values, DRIFTGATE_BF16);
  const TemporaryFolder folder;
  {
    const OpenedCase opened = open_case(test, folder);
    CHECK(heads_of(opened, test).same);
  }
  std::vector<double> weights = test.head_train.weight.values;
  weights[299 * 64 + 63] = 2;
  test.head_inf.weight = store(weights, DRIFTGATE_BF16);
  const double change = 2 - test.head_train.weight.values[299 * 64 + 63];
  const OpenedCase opened = open_case(test, folder);
  const fused::HeadPair heads = heads_of(opened, test);
  CHECK_FALSE(heads.same);
  const auto got = evaluate(test, heads, fused::best_product());
  for (std::size_t row = 0; row < test.rows(); ++row) {
    CHECK(value(got[row], Metric::logit_max_abs) ==
          doctest::Approx(std::abs(change * test.train.row(row)[63])).epsilon(1e-7));  // a product in float32
  }
}

TEST_CASE("equal hidden states under one head give exactly no drift") {
  const HiddenCase test = simple_case(700, 200, 9, 0);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  for (const fused::ProductKernel* kernel : products()) {
    for (const driftgate_row& row : evaluate(test, heads_of(opened, test), *kernel)) {
      for (const Metric metric : {Metric::logit_max_abs, Metric::logit_rms, Metric::logit_span, Metric::tv,
                                  Metric::kl_train_inf, Metric::kl_inf_train, Metric::js, Metric::hellinger2,
                                  Metric::chi2, Metric::top1_flip, Metric::log_ratio}) {
        CHECK(value(row, metric) == 0);
      }
      CHECK(value(row, Metric::entropy_train) == value(row, Metric::entropy_inf));
      CHECK(value(row, Metric::topk_overlap) == 1);
    }
  }
}

TEST_CASE("the figures of a row are the same bytes in every block and next to any other rows") {
  std::mt19937_64 random(9);
  for (int i = 0; i < 24; ++i) {
    const auto draw = [&] { return i < 12 ? random_hidden_case(random) : bf16_case(random); };
    HiddenCase test = draw();
    while (test.rows() < 15) test = draw();
    CAPTURE(test.text);
    const TemporaryFolder folder;
    const OpenedCase opened = open_case(test, folder);
    const fused::HeadPair heads = heads_of(opened, test);
    for (const fused::ProductKernel* kernel : products()) {
      const auto whole = evaluate(test, heads, *kernel);
      for (const std::size_t most : {std::size_t{1}, std::size_t{4}, std::size_t{7}}) {
        const auto parts = evaluate(test, heads, *kernel, DRIFTGATE_METRICS_ALL, most);
        for (std::size_t row = 0; row < test.rows(); ++row) CHECK(same_bytes(whole[row], parts[row]));
      }
    }
  }
}

TEST_CASE("any number of threads gives the same table") {
  const HiddenCase test = simple_case(600, 96, 100, 0.05);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  MeasureOptions options;
  options.threads = 1;
  const auto one = measure(opened.train, opened.inf, nullptr, options);
  REQUIRE(one);
  CHECK(one->rows == 100);
  for (const std::uint32_t threads : {2U, 3U, 64U, 1'000U}) {
    options.threads = threads;
    const auto many = measure(opened.train, opened.inf, nullptr, options);
    REQUIRE(many);
    CHECK(serialise(*many) == serialise(*one));
  }
}

TEST_CASE("core metrics take one product and are the same bytes as with all metrics") {
  std::mt19937_64 random(17);
  for (int i = 0; i < 20; ++i) {
    const HiddenCase test = random_hidden_case(random);
    CAPTURE(test.text);
    const TemporaryFolder folder;
    const OpenedCase opened = open_case(test, folder);
    const fused::HeadPair heads = heads_of(opened, test);
    const auto all = evaluate(test, heads, fused::best_product());
    const auto core = evaluate(test, heads, fused::best_product(), DRIFTGATE_METRICS_CORE);
    for (std::size_t row = 0; row < test.rows(); ++row) {
      for (const Metric metric :
           {Metric::logit_max_abs, Metric::logit_span, Metric::kl_train_inf, Metric::kl_inf_train,
            Metric::top1_flip, Metric::log_ratio, Metric::logprob_train, Metric::logprob_inf}) {
        CHECK(value(core[row], metric) == value(all[row], metric));
      }
      CHECK(std::isnan(value(core[row], Metric::tv)));
      CHECK(std::isnan(core[row].head_tail_tv));
    }
  }
}

TEST_CASE("the error estimate requests a second product exactly where one pass is not accurate") {
  // Every token's drift but the pivot's is 1 + ε: what is left of G after the offset cancels.
  cpu::Pass1 sums{};
  sums.n = 2;
  sums.l_p = sums.l_q = 1;
  sums.s = 1e-7, sums.g = 5e-15, sums.t = 1e-7, sums.h = 5e-15;  // KL of 0 up to rounding: below 1e-15
  CHECK(fused::one_pass_kl(sums).accurate);
  sums.s = -40, sums.g = std::expm1(40.0) - 40, sums.t = 0, sums.h = 0;
  CHECK_FALSE(fused::one_pass_kl(sums).accurate);
  sums.s = 3, sums.g = 2;  // u = −1: no offset
  CHECK_FALSE(fused::one_pass_kl(sums).accurate);
}

TEST_CASE("a drift of tens of nats is accurate in core metrics, by a second product where one is needed") {
  for (const double drift : {20.0, 50.0, 200.0}) {
    HiddenCase test = simple_case(520, 40, 6, drift);
    const TemporaryFolder folder;
    const OpenedCase opened = open_case(test, folder);
    const auto got = evaluate(test, heads_of(opened, test), fused::best_product(), DRIFTGATE_METRICS_CORE);
    for (std::size_t row = 0; row < test.rows(); ++row) {
      const Row wanted = oracle(test.pair(row));
      for (const Metric metric : {Metric::kl_train_inf, Metric::kl_inf_train}) {
        const auto want = static_cast<double>(wanted[static_cast<std::size_t>(metric)]);
        CHECK(value(got[row], metric) == doctest::Approx(want).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("drift through a saturated soft-cap keeps its relative accuracy") {
  HiddenCase test = simple_case(40, 30, 5, 1e-5);
  test.head_train.cap = test.head_inf.cap = 1;  // logits reach 10 and more
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  const auto got = evaluate(test, heads_of(opened, test), fused::best_product());
  for (std::size_t row = 0; row < test.rows(); ++row) {
    long double low = INFINITY, high = -INFINITY;
    for (std::uint32_t v = 0; v < 40; ++v) {
      long double x = 0, d = 0;
      for (std::uint32_t k = 0; k < 30; ++k) {
        const long double w = test.head_train.weight.values[std::size_t{v} * 30 + k];
        x += w * test.train.row(row)[k];
        d += w * (static_cast<long double>(test.train.row(row)[k]) - test.inf.row(row)[k]);
      }
      const long double drift = sinhl(d) / (coshl(x) * coshl(x - d));
      low = std::min(low, drift), high = std::max(high, drift);
    }
    CHECK(value(got[row], Metric::logit_span) ==
          doctest::Approx(static_cast<double>(high - low)).epsilon(1e-6));
  }
}

TEST_CASE("a hidden state that is not finite makes every logit of its row so") {
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    HiddenCase test = simple_case(300, 64, 6, 0.1);
    const auto spoil = [&](HiddenDraft& draft, std::size_t row) {
      std::vector<double> values = draft.hidden.values;
      values[row * 64 + 63] = bad;
      draft.hidden = store(values, DRIFTGATE_F32);
    };
    spoil(test.train, 1);
    spoil(test.inf, 3);
    spoil(test.train, 4);
    spoil(test.inf, 4);
    const TemporaryFolder folder;
    const OpenedCase opened = open_case(test, folder);
    const auto got = evaluate(test, heads_of(opened, test), fused::best_product());
    const double wanted[] = {0, 300, 0, 300, 600, 0};
    for (std::size_t row = 0; row < 6; ++row) {
      CHECK(value(got[row], Metric::nonfinite) == wanted[row]);
      CHECK(got[row].status == (wanted[row] > 0 ? DRIFTGATE_ROW_NONFINITE : DRIFTGATE_ROW_OK));
      CHECK(std::isnan(value(got[row], Metric::tv)) == (wanted[row] > 0));
    }
  }
}

TEST_CASE("tokens masked in both heads are left out; tokens masked in one head are nonfinite") {
  HiddenCase test = simple_case(300, 64, 2, 0.1);
  test.head_train.bias.assign(300, 0.0);
  test.head_train.bias[7] = test.head_train.bias[299] = kMaskedBias;
  test.head_inf = test.head_train;
  test.same_head = false;
  test.train.tokens = test.inf.tokens = {7, 8};
  const TemporaryFolder folder;
  {
    const OpenedCase opened = open_case(test, folder);
    const auto got = evaluate(test, heads_of(opened, test), fused::best_product());
    CHECK(got[0].status == DRIFTGATE_ROW_TOKEN_MASKED);
    CHECK(got[1].status == DRIFTGATE_ROW_OK);
    CHECK(fault_of(oracle(test.pair(1)), got[1]) == "");
  }
  test.head_inf.bias[40] = kMaskedBias;
  {
    const OpenedCase opened = open_case(test, folder);
    const auto got = evaluate(test, heads_of(opened, test), fused::best_product());
    CHECK(got[1].status == DRIFTGATE_ROW_NONFINITE);
    CHECK(value(got[1], Metric::nonfinite) == 1);
  }
  test.head_train.bias.assign(300, kMaskedBias);
  test.head_inf.bias = test.head_train.bias;
  const OpenedCase opened = open_case(test, folder);
  CHECK(evaluate(test, heads_of(opened, test), fused::best_product())[1].status == DRIFTGATE_ROW_ALL_MASKED);
}

TEST_CASE("tokens that two heads mask with different sentinels do not change the figures of the others") {
  constexpr double kLeast = std::numeric_limits<float>::lowest();
  const auto masked = [](double train, double inf) {
    HiddenCase test = simple_case(300, 64, 6, 1e-3);
    for (std::int32_t& token : test.train.tokens) token %= 290;
    test.inf.tokens = test.train.tokens;
    test.same_head = false;
    test.head_train.bias.assign(300, 0);
    test.head_inf.bias = test.head_train.bias;
    for (std::size_t v = 290; v < 300; ++v) test.head_train.bias[v] = train, test.head_inf.bias[v] = inf;
    TemporaryFolder folder;
    const OpenedCase opened = open_case(test, folder);
    return evaluate(test, heads_of(opened, test), fused::best_product());
  };
  const auto wanted = masked(-kInfinity, -kInfinity);
  for (const auto& [train, inf] :
       {std::pair{kLeast, -1e4}, std::pair{-1e4, kLeast}, std::pair{kLeast, kLeast}, std::pair{-1e9, -1e30},
        std::pair{-1e4, -1e4}}) {
    const auto rows = masked(train, inf);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      CAPTURE(train);
      CAPTURE(inf);
      REQUIRE(rows[row].status == DRIFTGATE_ROW_OK);
      for (const Metric metric : {Metric::tv, Metric::kl_train_inf, Metric::kl_inf_train, Metric::js,
                                  Metric::entropy_train, Metric::entropy_inf, Metric::logprob_inf}) {
        const double truth = value(wanted[row], metric);
        CHECK(std::abs(value(rows[row], metric) - truth) <= 2e-6 * std::abs(truth));  // each is right to 1e-6
      }
    }
  }
}

TEST_CASE("a weight that is not finite makes its token's logit so in every row") {
  HiddenCase test = simple_case(300, 64, 2, 0.1);
  std::vector<double> weights = test.head_train.weight.values;
  weights[5 * 64] = kNaN;
  test.head_train.weight = store(weights, DRIFTGATE_F32);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  for (const driftgate_row& row : evaluate(test, heads_of(opened, test), fused::best_product())) {
    CHECK(value(row, Metric::nonfinite) == 2);
  }
}
