#include "gpu/cpu/widened_columns.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/split_rows.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 31;
constexpr std::pair<std::uint32_t, std::uint32_t> kMixed[] = {
    {DRIFTGATE_F32, DRIFTGATE_BF16}, {DRIFTGATE_F16, DRIFTGATE_F32}, {DRIFTGATE_BF16, DRIFTGATE_F16}};

std::vector<const cpu::TileKernel*> widening_kernels() {
  std::vector<const cpu::TileKernel*> out;
  for (const cpu::TileKernel* kernel : kernels())
    if (kernel->widen != nullptr) out.push_back(kernel);
  return out;
}

driftgate_batch batch_of(const Stored& train, const Stored& inf, const std::int64_t& token) {
  const auto vocabulary = static_cast<std::uint32_t>(train.values.size());
  return {sizeof(driftgate_batch), vocabulary, 1, train.view(vocabulary), inf.view(vocabulary), &token, 1.0};
}

/// As a whole, and in parts.
std::pair<driftgate_row, driftgate_row> evaluate(const cpu::TileKernel& kernel, const Stored& train,
                                                 const Stored& inf) {
  const std::int64_t token = 7;
  const driftgate_batch batch = batch_of(train, inf, token);
  std::pair<driftgate_row, driftgate_row> out{};
  cpu::RowEngine(kernel, batch.vocabulary, 10).measure(batch, 0, out.first);
  cpu::SplitRows(kernel, 1, batch.vocabulary, 10, DRIFTGATE_METRICS_ALL, 2 * cpu::kTileColumns)
      .measure(batch, {&out.second, 1});
  return out;
}

bool same(const driftgate_row& a, const driftgate_row& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

TEST_CASE("rows of two types measure as in float32, bit for bit, whole and in parts") {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  for (const cpu::TileKernel* kernel : widening_kernels()) {
    for (const std::size_t columns : {1U, 65U, 2'047U, 2'048U, 5'001U}) {
      for (const double drift : {0.0, 0.01, 3.0}) {
        std::vector<double> train(std::max<std::size_t>(columns, 8)), inf(train.size());
        for (std::size_t i = 0; i < train.size(); ++i) {
          train[i] = 3 * normal(random);
          inf[i] = train[i] + drift * normal(random);
        }
        for (const auto& [of_train, of_inf] : kMixed) {
          CAPTURE(kernel->name);
          CAPTURE(columns);
          CAPTURE(drift);
          CAPTURE(of_train);
          const Stored a = store(train, of_train), b = store(inf, of_inf);
          const auto mixed = evaluate(*kernel, a, b);
          const auto wide = evaluate(*kernel, store(a.values, DRIFTGATE_F32), store(b.values, DRIFTGATE_F32));
          CHECK(same(mixed.first, wide.first));
          CHECK(same(mixed.second, wide.second));
        }
      }
    }
  }
}

TEST_CASE("every number of 16 bits is widened exactly, at any place") {
  std::vector<std::uint16_t> all(0x1'0000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto* bytes = reinterpret_cast<const unsigned char*>(all.data());
  for (const cpu::TileKernel* kernel : widening_kernels()) {
    for (const std::uint32_t dtype : {DRIFTGATE_F16, DRIFTGATE_BF16}) {
      std::vector<float> out(all.size());
      kernel->widen(bytes, dtype, all.size(), out.data());
      std::size_t wrong = 0;
      for (const std::uint16_t bits : all) {
        const float wanted = dtype == DRIFTGATE_F16 ? cpu::from_f16(bits) : cpu::from_bf16(bits);
        const float got = out[bits];
        if (std::isnan(wanted) ? !std::isnan(got)
                               : std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(wanted))
          ++wrong;
      }
      CAPTURE(kernel->name);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("rows of one type are read where they lie, and copies only grow") {
  const std::vector<double> values(5'000, 0.5);
  const Stored half = store(values, DRIFTGATE_BF16), whole = store(values, DRIFTGATE_F32);
  const std::int64_t token = 7;
  for (const cpu::TileKernel* kernel : kernels()) {
    cpu::WidenedColumns widened(*kernel);
    const cpu::RowColumns one = cpu::columns_of(batch_of(half, half, token), 0);
    CHECK(widened.of(one).train == one.train);
    const cpu::RowColumns two = cpu::columns_of(batch_of(whole, half, token), 0);
    const cpu::RowColumns made = widened.of(two), part = widened.of(two.part(0, 100));
    CHECK(made.train == two.train);
    CHECK((made.inf == two.inf) == (kernel->widen == nullptr));
    CHECK(made.inf_dtype == (kernel->widen == nullptr ? DRIFTGATE_BF16 : DRIFTGATE_F32));
    if (kernel->widen != nullptr) CHECK(part.inf == made.inf);
  }
}
