// Tests hidden states on a device, through the table that the program uses, like cuda_device_test.cpp: where
// there is no device, each test reports that it was skipped. What needs no device is tested in
// fused/cuda_hidden_test.cpp.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/drift.hpp"
#include "gpu/fused/device_heads.hpp"
#include "gpu/fused/device_rows.hpp"
#include "tests/gpu/cuda_device.hpp"
#include "tests/gpu/fused/hidden_case.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261124;

struct Opened {
  explicit Opened(const HiddenCase& from) : test(from), opened(open_case(test, folder)) {
    pair = fused::pair_heads(fused::best_product(), opened.train.head(), opened.inf.head(), test.temperature);
    tokens.assign(test.train.tokens.begin(), test.train.tokens.end());
  }
  [[nodiscard]] std::vector<driftgate_row> measure(Backend& backend) const {
    std::vector<driftgate_row> rows(test.rows());
    const auto brought = backend.open_hidden(fused::device_heads(pair));
    REQUIRE_MESSAGE(brought, brought.error().message);
    const driftgate_hidden_batch batch{sizeof(driftgate_hidden_batch),
                                       0,
                                       rows.size(),
                                       test.train.hidden.view(test.train.width),
                                       test.inf.hidden.view(test.inf.width),
                                       tokens.data()};
    const auto done = backend.measure_hidden(batch, rows);
    REQUIRE_MESSAGE(done, done.error().message);
    return rows;
  }
  HiddenCase test;
  TemporaryFolder folder;
  OpenedCase opened;
  fused::HeadPair pair;
  std::vector<std::int64_t> tokens;
};

/// One bf16 head and bf16 hidden states of the usual sizes.
HiddenCase usual_case(std::uint32_t vocabulary, std::uint32_t width, std::size_t rows, double drift) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<double> weights(std::size_t{vocabulary} * width), train(rows * width), inf(rows * width);
  const double size = 3 / std::sqrt(static_cast<double>(width));
  for (double& value : weights) value = size * static_cast<double>(normal(random));
  for (std::size_t i = 0; i < train.size(); ++i) {
    train[i] = static_cast<double>(normal(random));
    inf[i] = train[i] + drift / 3 * static_cast<double>(normal(random));
  }
  HiddenCase out;
  out.head_train = {vocabulary, width, store(weights, DRIFTGATE_BF16), {}, 1, 0};
  out.head_inf = out.head_train;
  out.train.width = out.inf.width = width;
  out.train.hidden = store(train, DRIFTGATE_BF16), out.inf.hidden = store(inf, DRIFTGATE_BF16);
  for (std::size_t row = 0; row < rows; ++row) {
    out.train.sequences.push_back(static_cast<std::int32_t>(row / 16));
    out.train.tokens.push_back(static_cast<std::int32_t>(random() % vocabulary));
  }
  out.inf.sequences = out.train.sequences, out.inf.tokens = out.train.tokens;
  return out;
}

}  // namespace

TEST_CASE("hidden states on the device agree with the oracle on random heads") {
  if (!device(10)) return;
  std::mt19937_64 random(kSeed);
  std::size_t measured = 0, not_measured = 0;
  for (int i = 0; i < 300; ++i) {
    const bool large = i % 3 == 0;
    const Opened opened(
        random_hidden_case(random, large ? 2'100 + static_cast<std::uint32_t>(random() % 6'000) : 0));
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(opened.test.text);
    auto backend = device(opened.test.top_k);
    REQUIRE(backend);
    const auto rows = opened.measure(*backend);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      CAPTURE(row);
      if (rows[row].status == DRIFTGATE_ROW_NOT_MEASURED) {
        ++not_measured;
        continue;
      }
      ++measured;
      REQUIRE(rows[row].status == DRIFTGATE_ROW_OK);
      CHECK(fault_of(oracle(opened.test.pair(row)), rows[row]) == "");
    }
  }
  MESSAGE("measured " << measured << ", not measured " << not_measured);
  CHECK(not_measured * 10 < measured);
}

TEST_CASE("hidden states of usual sizes agree with the CPU's form, and twice to the bit") {
  auto backend = device(10), core = device(10, DRIFTGATE_METRICS_CORE);
  if (!backend || !core) return;
  for (const double drift : {0.0, 0.02}) {
    const Opened opened(usual_case(32'000, 1'000, 300, drift));
    const auto first = opened.measure(*backend), second = opened.measure(*backend);
    CHECK(std::memcmp(first.data(), second.data(), first.size() * sizeof(driftgate_row)) == 0);
    const auto fast = opened.measure(*core);
    const auto wanted = evaluate(opened.test, opened.pair, fused::best_product());
    std::size_t not_measured = 0;
    for (std::size_t row = 0; row < first.size(); ++row) {
      CAPTURE(row);
      if (first[row].status == DRIFTGATE_ROW_NOT_MEASURED) {
        ++not_measured;
        continue;
      }
      for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
        CAPTURE(schema::to_string(static_cast<Metric>(metric)));
        const double want = wanted[row].values[metric], have = first[row].values[metric];
        if (std::isnan(want) && std::isnan(have)) continue;
        auto most = static_cast<double>(2 * permitted(metric, want));  // each has its own error
        // A log-ratio that is a small part of its row's drift is right to a part of tv, as fault_of says.
        const double tv = wanted[row].values[static_cast<std::size_t>(Metric::tv)];
        if (metric == static_cast<std::size_t>(Metric::log_ratio)) most = std::max(most, 2e-6 * tv);
        CHECK(std::abs(want - have) <= most);
        if (drift == 0 && metric <= static_cast<std::size_t>(Metric::chi2)) CHECK(have == 0);
      }
      const auto kl = static_cast<std::size_t>(Metric::kl_inf_train);
      CHECK(fast[row].values[kl] == doctest::Approx(first[row].values[kl]).epsilon(1e-6));
      CHECK(std::isnan(fast[row].values[static_cast<std::size_t>(Metric::tv)]));
    }
    CHECK(not_measured == 0);
  }
}

TEST_CASE(
    "hidden states that are apart in memory give on the device the figures of those that follow each other") {
  for (const std::uint32_t width : {40U, 1'000U}) {
    auto one = device(10), other = device(10);
    if (!one || !other) return;
    const Opened opened(usual_case(3'000, width, 300, 0.02));
    const SpacedCase spaced(opened.test, opened.opened);
    MeasureOptions options;
    options.device = "cuda";
    auto close = fused::device_rows(opened.opened.train, opened.opened.inf, options, 2, std::move(*one));
    auto apart = fused::device_rows(spaced.train(), spaced.inf(), options, 2, std::move(*other));
    REQUIRE(close);
    REQUIRE(apart);
    std::vector<driftgate_row> wanted(opened.test.rows()), got(opened.test.rows());
    REQUIRE((*close)->measure(0, wanted));
    REQUIRE((*apart)->measure(0, got));
    CHECK(std::memcmp(wanted.data(), got.data(), got.size() * sizeof(driftgate_row)) == 0);
  }
}

TEST_CASE(
    "heads that are brought again replace the ones before, and hidden states before heads are refused") {
  auto backend = device(10);
  if (!backend) return;
  const Opened small(usual_case(50, 40, 3, 0.1)), other(usual_case(3'000, 200, 3, 0.1));
  std::vector<driftgate_row> rows(3);
  const driftgate_hidden_batch batch{
      sizeof(driftgate_hidden_batch), 0,      3, small.test.train.hidden.view(40),
      small.test.inf.hidden.view(40), nullptr};
  const auto early = backend->measure_hidden(batch, rows);
  REQUIRE_FALSE(early);
  CHECK(early.error().message.find("heads must be opened before") != std::string::npos);
  const auto before = small.measure(*backend);
  CHECK(other.measure(*backend)[0].status == DRIFTGATE_ROW_OK);
  const auto after = small.measure(*backend);
  CHECK(std::memcmp(before.data(), after.data(), before.size() * sizeof(driftgate_row)) == 0);
}

TEST_CASE("hidden states of more elements than the device multiplies are refused by name") {
  auto backend = device(10);
  if (!backend) return;
  const Opened wide(usual_case(3, 40'000, 1, 0.1));
  const auto refused = backend->open_hidden(fused::device_heads(wide.pair));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("32768") != std::string::npos);
  CHECK(refused.error().message.find("--device cpu") != std::string::npos);
}
