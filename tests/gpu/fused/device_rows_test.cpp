#include "gpu/fused/device_rows.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "gpu/backend/backend_input.hpp"
#include "gpu/fused/device_heads.hpp"
#include "gpu/fused/hidden_rows.hpp"
#include "gpu/ranks/rank_layout.hpp"
#include "gpu/ranks/ranked_drift.hpp"
#include "tests/gpu/fused/hidden_case.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

HiddenCase case_of_width(std::uint32_t width) {
  std::mt19937_64 random(3);
  HiddenCase test = random_hidden_case(random);
  while (test.rows() < 15 || test.train.hidden.dtype != DRIFTGATE_F32) test = random_hidden_case(random);
  const std::uint32_t vocabulary = 40;
  std::normal_distribution<double> normal;
  std::vector<double> weights, train, inf;
  for (std::uint32_t i = 0; i < vocabulary * width; ++i) weights.push_back(normal(random));
  for (std::size_t i = 0; i < test.rows() * width; ++i)
    train.push_back(normal(random)), inf.push_back(train.back() + 0.01);
  test.head_train = {vocabulary, width, store(weights, DRIFTGATE_BF16), {}, 1, 0};
  test.head_inf = test.head_train;
  test.same_head = true;
  test.train.width = test.inf.width = width;
  test.train.hidden = store(train, DRIFTGATE_F32), test.inf.hidden = store(inf, DRIFTGATE_F32);
  for (auto* tokens : {&test.train.tokens, &test.inf.tokens}) {
    for (std::int32_t& token : *tokens) token %= 40;
  }
  return test;
}

Backend fake_backend() {
  auto backend = Backend::open("cuda", 1, 10, DRIFTGATE_FAKE_BACKEND);
  REQUIRE(backend);
  return std::move(*backend);
}

/// What the fake backend says of rows from `first` on, and what the CPU measures of those that it leaves.
void check_rows(const HiddenCase& test, const std::vector<driftgate_row>& wanted,
                const std::vector<driftgate_row>& got, std::size_t first) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (i % 3 == 1) {
      CHECK(std::memcmp(&got[i], &wanted[first + i], sizeof(driftgate_row)) == 0);
    } else {
      CHECK(got[i].values[0] == test.inf.hidden.values[(first + i) * test.inf.width]);
    }
  }
}

}  // namespace

TEST_CASE("exactly the rows that a device has not measured are measured on the CPU") {
  const HiddenCase test = case_of_width(24);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  MeasureOptions options;
  options.device = "cuda";
  auto rows = fused::device_rows(opened.train, opened.inf, options, 2, fake_backend());
  REQUIRE(rows);
  CHECK((*rows)->available(0) == test.rows());
  CHECK((*rows)->available(2) == test.rows() - 2);
  options.device = "cpu";
  auto cpu = fused::hidden_rows(opened.train, opened.inf, options, 1);
  REQUIRE(cpu);
  CHECK((*rows)->rows_on_cpu() == 0);
  constexpr std::size_t kFirst = 2;
  std::vector<driftgate_row> wanted(test.rows()), got(test.rows() - kFirst);
  REQUIRE((*cpu)->measure(0, wanted));
  REQUIRE((*rows)->measure(kFirst, got));
  check_rows(test, wanted, got, kFirst);
  CHECK((*rows)->rows_on_cpu() == (got.size() + 1) / 3);
}

TEST_CASE("a device gets rows that are apart in memory with their distance, that of each kernel") {
  const HiddenCase test = case_of_width(24);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  const SpacedCase spaced(test, opened);
  MeasureOptions options;
  auto cpu = fused::hidden_rows(opened.train, opened.inf, options, 1);
  REQUIRE(cpu);
  options.device = "cuda";
  auto rows = fused::device_rows(spaced.train(), spaced.inf(), options, 2, fake_backend());
  REQUIRE(rows);
  constexpr std::size_t kFirst = 1;
  CHECK((*rows)->available(kFirst) == test.rows() - kFirst);
  std::vector<driftgate_row> wanted(test.rows()), got(test.rows() - kFirst);
  REQUIRE((*cpu)->measure(0, wanted));
  REQUIRE((*rows)->measure(kFirst, got));
  check_rows(test, wanted, got, kFirst);
}

TEST_CASE("the table counts the rows that a device left to the CPU, and has no count without a device") {
  const HiddenCase test = case_of_width(24);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  MeasureOptions options;
  options.threads = 1;
  const auto cpu = measure(opened.train, opened.inf, nullptr, options);
  REQUIRE_MESSAGE(cpu, cpu.error().message);
  CHECK_FALSE(cpu->rows_on_cpu);
  options.device = "cuda:1";
  const auto one = measure(opened.train, opened.inf, nullptr, options);
  REQUIRE_MESSAGE(one, one.error().message);
  CHECK(one->rows_on_cpu == (test.rows() + 1) / 3);
  const auto read = deserialise(serialise(*one));
  REQUIRE(read);
  CHECK(read->rows_on_cpu == one->rows_on_cpu);

  const auto ranges = row_ranges(opened.train.sequence_ids(), 3);
  std::uint64_t wanted = 0;
  for (const Range& range : ranges) wanted += (range.count() + 1) / 3;
  const auto shared =
      measure_in_threads(opened.train, opened.inf, nullptr, options, {}, {"cuda:0", "cuda:1", "cuda:2"});
  REQUIRE_MESSAGE(shared.table, shared.table.error().message);
  CHECK(shared.table->rows_on_cpu == wanted);
}

TEST_CASE("the error of a device about heads reaches the caller") {
  const HiddenCase test = case_of_width(13);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  MeasureOptions options;
  options.device = "cuda:0";
  const auto refused = fused::device_rows(opened.train, opened.inf, options, 1, fake_backend());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("thirteen is too wide") != std::string::npos);
}

TEST_CASE("a backend without hidden states is refused by name, and so is one that is absent") {
  const HiddenCase test = case_of_width(24);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  MeasureOptions options;
  options.device = "cuda:3";
  auto cpu = Backend::open("cpu", 1, 10);
  REQUIRE(cpu);
  CHECK_FALSE(cpu->can_measure_hidden());
  const auto refused = fused::device_rows(opened.train, opened.inf, options, 1, std::move(*cpu));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::unsupported);
  CHECK(refused.error().message.find("'cuda:3' does not measure hidden states") != std::string::npos);
  options.device = "cuda:99";  // unavailable everywhere: no library, no driver, or no such device
  const auto absent = fused::hidden_rows(opened.train, opened.inf, options, 1);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == schema::ErrorCode::unavailable);
}

TEST_CASE("invalid heads and batches of hidden states are refused with the reason") {
  const HiddenCase test = case_of_width(24);
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  const fused::HeadPair pair =
      fused::pair_heads(fused::best_product(), opened.train.head(), opened.inf.head(), 1.0);
  const driftgate_hidden_heads good = fused::device_heads(pair);
  CHECK(fault_of_heads(&good, true) == nullptr);
  CHECK(fault_of_heads(nullptr, true) != nullptr);
  CHECK(fault_of_heads(&good, false) != nullptr);
  const auto refused = [&](auto change) {
    driftgate_hidden_heads heads = good;
    change(heads);
    return fault_of_heads(&heads, true) != nullptr;
  };
  using Heads = driftgate_hidden_heads;
  std::vector<std::uint32_t> tokens = pair.tokens;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refused([](Heads& h) { h.struct_size = 8; }));
  CHECK(refused([](Heads& h) { h.vocabulary = 0; }));
  CHECK(refused([](Heads& h) { h.vocabulary = 1U << 23; }));
  CHECK(refused([](Heads& h) { h.width = 0; }));
  CHECK(refused([](Heads& h) { h.width = 65'537; }));
  CHECK(refused([](Heads& h) { h.temperature = 0; }));
  CHECK(refused([&](Heads& h) { h.temperature = nan; }));
  CHECK(refused([](Heads& h) { h.columns = 41; }));
  CHECK(refused([](Heads& h) { h.tokens = nullptr; }));
  CHECK(refused([](Heads& h) { h.bias_train = &h.temperature; }));
  CHECK(refused([](Heads& h) { h.train.weight = nullptr; }));
  CHECK(refused([](Heads& h) { h.inf.centre = nullptr; }));
  CHECK(refused([](Heads& h) { h.inf.dtype = 3; }));
  CHECK(refused([](Heads& h) { h.train.scale = 0; }));
  CHECK(refused([&](Heads& h) { h.inf.scale = nan; }));
  CHECK(refused([](Heads& h) { h.inf.soft_cap = -1; }));
  tokens[3] = tokens[4];
  CHECK(refused([&](Heads& h) { h.tokens = tokens.data(); }));
  tokens.back() = 40, tokens[3] = 3;
  CHECK(refused([&](Heads& h) { h.tokens = tokens.data(); }));

  const std::int64_t ids[] = {0, 40};
  driftgate_hidden_batch batch{sizeof(batch), 0, 2, {ids, 4, 0, 0}, {ids, 4, 0, 0}, nullptr};
  CHECK(fault_of_hidden(&batch, 40, true) == nullptr);
  CHECK(fault_of_hidden(&batch, 0, true) ==
        std::string("the heads must be opened before hidden states are measured"));
  CHECK(fault_of_hidden(&batch, 40, false) != nullptr);
  CHECK(fault_of_hidden(nullptr, 40, true) != nullptr);
  batch.tokens = ids;
  CHECK(fault_of_hidden(&batch, 40, true) != nullptr);
  CHECK(fault_of_hidden(&batch, 41, true) == nullptr);
  batch.inf.dtype = 9;
  CHECK(fault_of_hidden(&batch, 41, true) != nullptr);
  batch.inf.dtype = 0, batch.train.data = nullptr;
  CHECK(fault_of_hidden(&batch, 41, true) != nullptr);
  batch.rows = 0;
  CHECK(fault_of_hidden(&batch, 41, true) == nullptr);
  batch.struct_size = 8;
  CHECK(fault_of_hidden(&batch, 41, true) != nullptr);
}
