#include "gpu/capture/logit_check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gpu/batched_drift.hpp"
#include "gpu/ranks/ranked_drift.hpp"
#include "tests/gpu/logits.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kTokens = 300;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> ordinary_row(std::mt19937& random, float offset = 0) {
  std::normal_distribution<float> normal;
  std::vector<float> out;
  for (std::uint32_t v = 0; v < kTokens; ++v) out.push_back(4 * normal(random) + offset);
  return out;
}

bool is_unphysical(const std::vector<float>& row) {
  return unphysical(std::as_bytes(std::span(row)).data(), DType::f32, static_cast<std::uint32_t>(row.size()))
      .has_value();
}

bool is_unphysical(const std::vector<std::uint16_t>& row, DType dtype) {
  return unphysical(std::as_bytes(std::span(row)).data(), dtype, static_cast<std::uint32_t>(row.size()))
      .has_value();
}

CaptureDraft draft(float drift) {
  CaptureDraft out;
  out.vocabulary = kTokens;
  std::mt19937 random(1), other(2);
  std::normal_distribution<float> normal;
  for (std::int32_t row = 0; row < 40; ++row) {
    std::vector<float> values = ordinary_row(random);
    for (float& value : values) value += drift * normal(other);
    out.add_row(row / 8, row % 8, row, values);
  }
  return out;
}

void offset_row(CaptureDraft& capture, std::size_t row, float offset) {
  for (std::size_t v = 0; v < kTokens; ++v) capture.logits[row * kTokens + v] += offset;
}

Capture written(const CaptureDraft& capture, const std::filesystem::path& path) {
  capture.write(path);
  auto opened = Capture::open(path);
  if (!opened) FAIL(opened.error().describe());
  return std::move(*opened);
}

}  // namespace

TEST_CASE("ordinary rows, masked or not, are physical") {
  std::mt19937 random(5);
  for (const float mask : {-1e4F, -65'504.0F, -1e9F, -1e30F, -3.4e38F, -kInfinity}) {
    CAPTURE(mask);
    for (const std::uint32_t unmasked : {1U, 3U, 150U, 299U}) {
      CAPTURE(unmasked);
      std::vector<float> row = ordinary_row(random);
      std::fill(row.begin(), row.end() - unmasked, mask);  // the first tokens are masked
      CHECK_FALSE(is_unphysical(row));
      std::ranges::reverse(row);
      CHECK_FALSE(is_unphysical(row));
    }
  }
  CHECK_FALSE(is_unphysical(std::vector<float>(kTokens, 0.0F)));
  CHECK_FALSE(is_unphysical(std::vector<float>(kTokens, 7.5F)));
  CHECK_FALSE(is_unphysical(std::vector<float>{3.0F}));
  CHECK_FALSE(is_unphysical(std::vector<float>(kTokens, -kInfinity)));  // an error of its own
  CHECK_FALSE(is_unphysical(ordinary_row(random, 500)));
  CHECK_FALSE(is_unphysical(ordinary_row(random, -20'000)));  // float32 keeps the differences
  std::vector<float> broken = ordinary_row(random);
  broken[3] = kInfinity;  // nonfinite is a figure
  broken[7] = std::nanf("");
  CHECK_FALSE(is_unphysical(broken));
}

TEST_CASE("rows whose logits no model computes are unphysical") {
  std::mt19937 random(6);
  CHECK(is_unphysical(std::vector<float>(kTokens, -3e38F)));
  CHECK(is_unphysical(std::vector<float>(kTokens, -65'504.0F)));  // every token is masked
  for (const float offset : {1e30F, -1e30F, 2e6F, -2e6F, 3e38F, -3e38F}) {
    CAPTURE(offset);
    CHECK(is_unphysical(ordinary_row(random, offset)));
    for (const float mask : {-1e4F, -65'504.0F, -3.4e38F, -kInfinity}) {
      std::vector<float> row = ordinary_row(random, offset);
      std::fill(row.begin(), row.begin() + 200, mask);
      // Where masks are above the unmasked logits, they are what the row consists of.
      if (offset > 0) CHECK(is_unphysical(row));
    }
  }
  // Bits of something else that were read as float32.
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<float> row;
    while (row.size() < kTokens) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (std::isfinite(value)) row.push_back(value);
    }
    found += is_unphysical(row) ? 1 : 0;
  }
  CHECK(found >= 99);
}

TEST_CASE("differences that the type of the logits cannot hold are lost") {
  std::mt19937 random(7);
  std::vector<std::uint16_t> near, far, half;
  for (const float value : ordinary_row(random)) {
    near.push_back(to_bf16(value));
    far.push_back(to_bf16(value + 20'000));
    half.push_back(to_f16(value - 60'000));
  }
  CHECK_FALSE(is_unphysical(near, DType::bf16));
  CHECK(is_unphysical(far, DType::bf16));
  CHECK(is_unphysical(half, DType::f16));
}

TEST_CASE("unphysical rows are a finding that decides, with side, place and count") {
  TemporaryFolder folder;
  CaptureDraft train = draft(0), inf = draft(0.05F);
  for (const std::size_t row : {17U, 18U, 35U}) offset_row(inf, row, 1e30F);
  const Capture a = written(train, folder / "a.safetensors"), b = written(inf, folder / "b.safetensors");
  const auto table = measure(a, b, nullptr, {});
  if (!table) FAIL(table.error().describe());
  REQUIRE(table->partial.findings.size() == 1);
  const CaptureFinding& finding = table->partial.findings.front();
  CHECK(finding.name == kUnphysicalLogits);
  CHECK(finding.side == "inf");
  CHECK(finding.decides);
  CHECK(finding.count == 3);
  CHECK(finding.of == 40);
  CHECK(finding.text.starts_with("in 3 of 40 rows the logits of inf are so large"));
  CHECK(finding.text.find("first in row 17 (sequence 2, position 1)") != std::string::npos);
  CHECK(finding.text.find("1e+30") != std::string::npos);
  CHECK(only_unphysical(*table));
  const auto good = measure(a, written(draft(0.05F), folder / "c.safetensors"), nullptr, {});
  REQUIRE(good);
  CHECK(good->partial.findings.empty());
}

TEST_CASE("ranks and batches find the same unphysical rows") {
  TemporaryFolder folder;
  CaptureDraft train = draft(0), inf = draft(0.05F);
  for (const std::size_t row : {9U, 30U}) offset_row(inf, row, -1e30F);
  for (const std::size_t row : {31U, 39U}) offset_row(train, row, 3e38F);
  const Capture a = written(train, folder / "a.safetensors"), b = written(inf, folder / "b.safetensors");
  const auto one = measure(a, b, nullptr, {});
  REQUIRE(one);
  REQUIRE(one->partial.findings.size() == 2);
  const auto same = [&](const MeasurementTable& table) {
    REQUIRE(table.partial.findings.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const CaptureFinding &found = table.partial.findings[i], &expected = one->partial.findings[i];
      CHECK(found.side == expected.side);
      CHECK(found.count == expected.count);
      CHECK(found.of == expected.of);
      CHECK(found.text == expected.text);
    }
  };
  for (const Shard shard : {Shard::rows, Shard::vocab}) {
    RankOptions how;
    how.shard = shard;
    const auto table = measure_in_threads(a, b, nullptr, {}, how, {"cpu", "cpu", "cpu"}).table;
    if (!table) FAIL(table.error().describe());
    same(*table);
  }
  BatchedDrift batches({}, {});
  for (const std::uint64_t first : {0U, 16U}) {
    const std::uint64_t rows = first == 0 ? 16 : 24;
    const auto ok = batches.add(a.slice(first, rows), b.slice(first, rows));
    if (!ok) FAIL(ok.error().describe());
  }
  const auto table = batches.table(nullptr, {});
  REQUIRE(table);
  same(*table);
}

TEST_CASE("findings of a kept table that LogitCheck cannot have made are not believed") {
  MeasurementTable table;
  table.rows = 10;
  CHECK(only_unphysical(table));
  const CaptureFinding good{kUnphysicalLogits, "train", true, 2, 10, "in 2 of 10 rows the logits of train …"};
  const auto believed = [&](auto change) {
    table.partial.findings = {good};
    change(table.partial.findings.front());
    return only_unphysical(table);
  };
  CHECK(believed([](CaptureFinding&) {}));
  CHECK_FALSE(believed([](CaptureFinding& f) { f.name = "other"; }));
  CHECK_FALSE(believed([](CaptureFinding& f) { f.side = "both"; }));
  CHECK_FALSE(believed([](CaptureFinding& f) { f.decides = false; }));
  CHECK_FALSE(believed([](CaptureFinding& f) { f.count = 11; }));
  CHECK_FALSE(believed([](CaptureFinding& f) { f.of = 9; }));
  CHECK_FALSE(believed([](CaptureFinding& f) { f.text = "in 3 of 10 rows the logits of train …"; }));
  table.partial.findings = {good, good};
  CHECK_FALSE(only_unphysical(table));
}
