// Tests how the CUDA backend moves heads and rows of hidden states, on an emulated device: its streams do
// nothing until they are waited for, and launches run the kernels over emulated threads.

#include "gpu/cuda/hidden_pipeline.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/gpu/fake_streams.hpp"
#include "tests/gpu/fused/emulated_hidden.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

struct FakeDevice {
  std::uint64_t free = std::uint64_t{1} << 40;
  const void* pinned = nullptr;  ///< data that counts as page-locked memory
  int launches = 0, failing_launch = -1;
};
FakeDevice fake;

using Tile = cuda::TileShape<2, 2>;

}  // namespace

namespace driftgate::gpu::cuda {

std::uint64_t free_bytes() {
  return fake.free;
}
Place place_of(const void* data) {
  return data == fake.pinned ? Place::pinned : Place::pageable;
}

int plan_hidden(HiddenLayout& layout) {
  layout = {Tile::kRows, Tile::kColumns, Tile::kAcross, 2, 0, 5};
  return 0;
}
int launch_pack_head(const HeadsView& heads, unsigned which, const DigitLines& to, LineNorms* norms,
                     StreamHandle stream) {
  queue_of(stream).push_back([=] {
    run_blocks(to.lines, 32, sizeof(BlockShared), 1,
               [&](EmulatedThread& thread, unsigned column, EmulatedCluster&) {
                 pack_column(thread, heads, which, column, to, norms);
               });
  });
  return 0;
}
int launch_hidden(const HeadsView& heads, const HiddenBatch& batch, const HiddenScratch& scratch,
                  const HiddenLayout& layout, driftgate_row* results, StreamHandle stream) {
  if (fake.launches++ == fake.failing_launch) return 1;
  queue_of(stream).push_back([=] {
    run_batch<Tile>(heads, batch, scratch, {32, 0, 0, layout.stages}, 1, results);
  });
  return 0;
}

}  // namespace driftgate::gpu::cuda

namespace {

/// Rows of a few tokens, so that chunks are quick, and more rows than a chunk holds.
HiddenCase many_rows(std::mt19937_64& random, std::size_t rows) {
  HiddenCase test = random_hidden_case(random);
  while (test.same_head || test.head_train.bias.empty() || test.head_train.vocabulary > 31 ||
         test.drift > 1 || test.head_train.vocabulary < 2) {
    test = random_hidden_case(random);
  }
  const auto repeat = [&](HiddenDraft& draft) {
    std::vector<double> values;
    for (std::size_t i = 0; i < rows * draft.width; ++i) {
      const double scale = 1 + 0.01 * static_cast<double>(i / draft.width);
      values.push_back(scale * draft.hidden.values[i % draft.hidden.values.size()]);
    }
    draft.hidden = store(values, draft.hidden.dtype);
    const std::size_t before = draft.tokens.size();
    for (std::size_t i = before; i < rows; ++i) draft.tokens.push_back(draft.tokens[i % before]);
    draft.sequences.assign(rows, 0);
  };
  repeat(test.train);
  repeat(test.inf);
  return test;
}

driftgate_hidden_batch batch_of(const HiddenCase& test, const std::vector<std::int64_t>& tokens) {
  return {sizeof(driftgate_hidden_batch),
          0,
          test.rows(),
          test.train.hidden.view(test.train.width),
          test.inf.hidden.view(test.inf.width),
          tokens.empty() ? nullptr : tokens.data()};
}

struct Opened {
  explicit Opened(const HiddenCase& test) : opened(open_case(test, folder)) {
    pair = fused::pair_heads(fused::best_product(), opened.train.head(), opened.inf.head(), test.temperature);
  }
  TemporaryFolder folder;
  OpenedCase opened;
  fused::HeadPair pair;
};

}  // namespace

TEST_CASE("every row of hidden states reaches the device, and its figures come back to its place") {
  std::mt19937_64 random(5);
  const HiddenCase test = many_rows(random, 300);
  CAPTURE(test.text);
  const Opened opened(test);
  fake = {};
  cuda::HiddenPipeline pipeline(fused::device_heads(opened.pair), test.top_k, false);
  const std::vector<std::int64_t> tokens(test.train.tokens.begin(), test.train.tokens.end());
  const driftgate_hidden_batch batch = batch_of(test, tokens);
  for (const void* pinned : {static_cast<const void*>(nullptr), batch.inf.data}) {
    fake.pinned = pinned;
    fake.launches = 0;
    std::vector<driftgate_row> rows(test.rows());
    pipeline.run(batch, rows.data());
    CHECK(fake.launches == 2);
    for (std::size_t i = 0; i < test.rows(); i += 7) {
      CAPTURE(i);
      REQUIRE(rows[i].status == DRIFTGATE_ROW_OK);
      Row wanted = oracle(test.pair(i));
      const auto ratio = static_cast<std::size_t>(Metric::log_ratio);
      wanted[ratio] = rows[i].values[ratio];  // small log-ratios are only accurate relative to tv
      CHECK(disagreement(wanted, rows[i].values) == "");
    }
  }
}

TEST_CASE("a launch on hidden states that fails is reported, and the next batch works") {
  std::mt19937_64 random(6);
  const HiddenCase test = many_rows(random, 258);
  const Opened opened(test);
  fake = {};
  cuda::HiddenPipeline pipeline(fused::device_heads(opened.pair), 2, true);
  std::vector<driftgate_row> rows(test.rows());
  for (int failing = 0; failing < 2; ++failing) {
    fake.launches = 0, fake.failing_launch = failing;
    CHECK_THROWS_AS(pipeline.run(batch_of(test, {}), rows.data()), cuda::CudaError);
  }
  fake.failing_launch = -1;
  pipeline.run(batch_of(test, {}), rows.data());
  CHECK(rows.back().status == DRIFTGATE_ROW_OK);
  CHECK(std::isnan(rows.back().values[static_cast<std::size_t>(Metric::log_ratio)]));
}

TEST_CASE("heads that do not fit the device are refused with what they need, before anything is allocated") {
  std::mt19937_64 random(7);
  const Opened opened(many_rows(random, 15));
  fake = {};
  fake.free = 1'000'000;
  try {
    const cuda::HiddenPipeline pipeline(fused::device_heads(opened.pair), 10, false);
    FAIL("not refused");
  } catch (const cuda::CudaError& error) {
    CHECK(error.text().find("1 MiB are free") != std::string::npos);
    CHECK(error.text().find("--device cpu") != std::string::npos);
  }
}

TEST_CASE("rows under heads without tokens or with a flawed weight never reach the device") {
  std::mt19937_64 random(8);
  HiddenCase test = many_rows(random, 15);
  const auto outcome = [&] {
    const Opened opened(test);
    fake = {};
    cuda::HiddenPipeline pipeline(fused::device_heads(opened.pair), 10, false);
    std::vector<driftgate_row> rows(test.rows());
    pipeline.run(batch_of(test, {}), rows.data());
    CHECK(fake.launches == 0);
    return rows[14].status;
  };
  std::vector<double> weights = test.head_inf.weight.values;
  weights.front() = std::numeric_limits<double>::infinity();
  const Stored before = test.head_inf.weight;
  test.head_inf.weight = store(weights, before.dtype);
  CHECK(outcome() == DRIFTGATE_ROW_NOT_MEASURED);
  test.head_inf.weight = before;
  test.head_train.bias.assign(test.head_train.vocabulary, kMaskedBias);
  test.head_inf.bias = test.head_train.bias;
  CHECK(outcome() == DRIFTGATE_ROW_ALL_MASKED);
}

TEST_CASE("device memory for rows stays below a twentieth of the logits that are not stored") {
  // Only counts: heads that do not fit are never read.
  constexpr std::uint32_t kVocabulary = 128'256, kWidth = 4'096;
  std::vector<std::uint32_t> tokens(kVocabulary);
  for (std::uint32_t v = 0; v < kVocabulary; ++v) tokens[v] = v;
  const std::vector<float> centre(kWidth);
  const driftgate_head_weight weight{centre.data(), centre.data(), 1, 0, DRIFTGATE_BF16, 0};
  const driftgate_hidden_heads heads{sizeof(heads), kVocabulary, kWidth,  kVocabulary,
                                     tokens.data(), nullptr,     nullptr, weight,
                                     weight,        1.0,         1,       0};
  fake = {};
  fake.free = 0;
  std::uint64_t head = 0, scratch = 0;
  try {
    const cuda::HiddenPipeline pipeline(heads, 10, false);
  } catch (const cuda::CudaError& error) {
    REQUIRE(std::sscanf(error.text().c_str(),
                        "the heads of these hidden states take %lu MiB of device memory, and %lu", &head,
                        &scratch) == 2);
  }
  constexpr std::uint64_t kWeightMiB = std::uint64_t{kVocabulary} * kWidth >> 20;
  CHECK(head >= 5 * kWeightMiB);
  CHECK(head <= 5 * kWeightMiB + 8);
  CAPTURE(scratch);
  constexpr std::uint64_t kRows = 8'192, kStoredMiB = (2 * kRows * kVocabulary * 2) >> 20;
  CHECK(scratch * 20 <= kStoredMiB);
  CHECK(scratch > 20);
}
