// Tests how the CUDA backend moves rows, on an emulated device: its streams do nothing until they are waited
// for, and its kernel records which logits, token and merged sums it was given for each row.

#include "gpu/cuda/row_pipeline.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "tests/gpu/fake_streams.hpp"

using namespace driftgate::gpu;

namespace {

struct FakeDevice {
  cuda::Place train = cuda::Place::pageable, inf = cuda::Place::pageable;
  const void* inf_data = nullptr;
  int launches = 0, aligned_rows = 0;
  int failing_launch = -1;
  std::uint32_t clusters = 0;
};
FakeDevice fake;

}  // namespace

namespace driftgate::gpu::cuda {

Place place_of(const void* data) {
  return data == fake.inf_data ? fake.inf : fake.train;
}
int plan_fast(const BatchView&, FastPlan& plan) {
  plan = {};
  plan.clusters = fake.clusters;
  plan.cluster = 4;
  return 0;
}
int launch_align(const unsigned char* from, std::uint64_t from_stride, unsigned char* to,
                 std::uint64_t to_stride, std::uint64_t row_bytes, std::uint64_t rows, StreamHandle stream) {
  fake.aligned_rows += static_cast<int>(rows);
  queue_of(stream).push_back([=] {
    for (std::uint64_t i = 0; i < rows; ++i)
      std::memcpy(to + i * to_stride, from + i * from_stride, row_bytes);
  });
  return 0;
}

/// First and last column of both kernels as one number, and where the rows lie.
double fingerprint(const BatchView& batch, std::uint64_t row) {
  REQUIRE(reinterpret_cast<std::uintptr_t>(batch.train) % 16 == 0);
  REQUIRE(batch.train_stride_bytes % 16 == 0);
  REQUIRE(batch.inf_stride_bytes % 16 == 0);
  const unsigned char* train = batch.train + row * batch.train_stride_bytes;
  const unsigned char* inf = batch.inf + row * batch.inf_stride_bytes;
  double out = 0;
  for (const std::uint64_t column : {std::uint64_t{0}, std::uint64_t{batch.columns - 1}}) {
    out = out * 1'000 + static_cast<double>(load_element(train, batch.train_dtype, column));
    out = out * 1'000 + static_cast<double>(load_element(inf, batch.inf_dtype, column));
  }
  return out;
}

int launch_batch(const BatchView& batch, const BatchScratch& scratch, const FastPlan&, driftgate_row* results,
                 StreamHandle stream) {
  if (fake.launches++ == fake.failing_launch) return 1;
  queue_of(stream).push_back([=] {
    for (std::uint64_t row = 0; row < batch.rows; ++row) {
      std::memset(static_cast<void*>(scratch.wide + row), 0xee, sizeof(RowSums));
      if (scratch.fast) {
        const std::uint64_t part = row * scratch.cluster;
        std::memset(static_cast<void*>(scratch.rows + row), 0xee, sizeof(FastRow));
        std::memset(static_cast<void*>(scratch.parts + part), 0xee, scratch.cluster * sizeof(FastPart));
        std::memset(static_cast<void*>(scratch.lists + part * 2 * scratch.list_size), 0xee,
                    scratch.cluster * 2 * scratch.list_size * sizeof(TopEntry));
      }
      const double print = fingerprint(batch, row);
      const ShardView& shard = scratch.shard;
      const double token = batch.tokens == nullptr ? -1.0 : static_cast<double>(batch.tokens[row]);
      if (batch.mode == Mode::shard_first) {
        shard.partials[row] = {};
        shard.partials[row].sums.c = print;
        shard.partials[row].token_train = token;
        shard.partials[row].top_train = shard.partials[row].top_inf = 2;
        driftgate_top_entry* const top = shard.top + row * 2 * scratch.list_size;
        for (std::uint32_t i = 0; i < 2 * scratch.list_size; ++i) top[i] = {print + i, shard.first_column, 0};
      } else if (batch.mode == Mode::shard_second) {
        shard.terms[row] = {};
        shard.terms[row].tv = print + shard.merged[row].offset;
      } else {
        results[row] = {};
        results[row].values[0] = print;
        results[row].values[1] = token;
      }
    }
  });
  return 0;
}

}  // namespace driftgate::gpu::cuda

namespace {

constexpr std::uint32_t kColumns = 1'000'003;  // odd, and about four rows to a chunk
constexpr std::uint64_t kRows = 11;

/// Rows at an offset and a stride of choice; row r's first and last columns are r + 1 and r + 101.
struct Side {
  std::vector<float> values;
  std::size_t stride;
  Side(std::size_t offset, std::size_t padding, float more) : stride(kColumns + padding) {
    values.assign(offset + stride * (kRows - 1) + kColumns, -7.0F);  // ends with the last column
    for (std::size_t row = 0; row < kRows; ++row) {
      values[offset + row * stride] = static_cast<float>(row + 1) + more;
      values[offset + row * stride + kColumns - 1] = static_cast<float>(row + 101) + more;
    }
    data = values.data() + offset;
  }
  const float* data;
};

driftgate_batch batch_of(const Side& train, const Side& inf, const std::vector<std::int64_t>& tokens) {
  fake.inf_data = inf.data;
  return {sizeof(driftgate_batch),
          kColumns,
          kRows,
          {train.data, train.stride * 4, DRIFTGATE_F32, 0},
          {inf.data, inf.stride * 4, DRIFTGATE_F32, 0},
          tokens.empty() ? nullptr : tokens.data(),
          1.0};
}

double wanted_print(std::size_t row) {
  const auto r = static_cast<double>(row);
  return (((r + 1) * 1'000 + (r + 301)) * 1'000 + (r + 101)) * 1'000 + (r + 401);
}

std::vector<std::int64_t> tokens_of_rows() {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < kRows; ++i) out.push_back(static_cast<std::int64_t>(10 * i));
  return out;
}

}  // namespace

TEST_CASE(
    "every row reaches the device whole from wherever it lies, and its figures come back to its place") {
  const auto tokens = tokens_of_rows();
  for (const cuda::Place train_place : {cuda::Place::pageable, cuda::Place::pinned, cuda::Place::device}) {
    for (const cuda::Place inf_place : {cuda::Place::pageable, cuda::Place::pinned, cuda::Place::device}) {
      for (const std::size_t padding : {0U, 1U}) {  // with 1 rows are a multiple of 16 bytes
        fake = {};
        fake.train = train_place, fake.inf = inf_place;
        fake.clusters = padding == 0 ? 3 : 0;
        const Side train(1 - padding, padding, 0), inf(0, 0, 300);
        const driftgate_batch batch = batch_of(train, inf, tokens);
        cuda::RowPipeline pipeline(10, 3);
        std::vector<driftgate_row> rows(kRows);
        cuda::Job job;
        job.rows = rows.data();
        pipeline.run(batch, job);
        CAPTURE(static_cast<int>(train_place));
        CAPTURE(static_cast<int>(inf_place));
        for (std::size_t i = 0; i < kRows; ++i) {
          CAPTURE(i);
          CHECK(rows[i].values[0] == wanted_print(i));
          CHECK(rows[i].values[1] == static_cast<double>(tokens[i]));
        }
        CHECK(fake.launches > 1);
      }
    }
  }
}

TEST_CASE("both passes of a part bring their sums along and take theirs back") {
  const auto tokens = tokens_of_rows();
  const Side train(0, 5, 0), inf(3, 1, 300);
  const driftgate_shard shard{sizeof(driftgate_shard), 77, 4'000'000, 0};
  fake = {};
  cuda::RowPipeline pipeline(1, 1);
  std::vector<driftgate_shard_partial> partials(kRows);
  std::vector<driftgate_top_entry> top(kRows * 4);
  cuda::Job first;
  first.mode = cuda::Mode::shard_first, first.shard = &shard;
  first.partials = partials.data(), first.top = top.data();
  pipeline.run(batch_of(train, inf, tokens), first);
  std::vector<driftgate_shard_row> merged(kRows);
  std::vector<driftgate_shard_terms> terms(kRows);
  for (std::size_t i = 0; i < kRows; ++i) merged[i].offset = static_cast<double>(i) / 8;
  cuda::Job second;
  second.mode = cuda::Mode::shard_second, second.shard = &shard;
  second.merged = merged.data(), second.terms = terms.data();
  pipeline.run(batch_of(train, inf, tokens), second);
  for (std::size_t i = 0; i < kRows; ++i) {
    CAPTURE(i);
    CHECK(partials[i].sums.c == wanted_print(i));
    CHECK(partials[i].token_train == static_cast<double>(tokens[i]));
    CHECK(top[4 * i].value == wanted_print(i) + 1);  // sorted
    CHECK(top[4 * i + 3].value == wanted_print(i) + 2);
    CHECK(top[4 * i].id == 77);
    CHECK(terms[i].tv == wanted_print(i) + static_cast<double>(i) / 8);
  }
}

TEST_CASE("a launch that fails is reported once everything before it has ended, and the next batch works") {
  const Side train(0, 1, 0), inf(0, 1, 300);
  const driftgate_batch batch = batch_of(train, inf, {});
  cuda::RowPipeline pipeline(10, 1);
  std::vector<driftgate_row> rows(kRows);
  cuda::Job job;
  job.rows = rows.data();
  for (int failing = 0; failing < 3; ++failing) {
    fake = {};
    fake.inf_data = inf.data;
    fake.failing_launch = failing;
    CHECK_THROWS_AS(pipeline.run(batch, job), cuda::CudaError);
    fake.failing_launch = -1;
    pipeline.run(batch, job);
    CHECK(rows[kRows - 1].values[0] == wanted_print(kRows - 1));
    CHECK(rows[0].values[1] == -1);
  }
}
