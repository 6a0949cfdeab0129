#include "gpu/support/support_check.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "gpu/compare_bits.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

/// Rows of `per_sequence` positions whose tokens K_inf ("q") sampled.
std::pair<CaptureDraft, CaptureDraft> drafts(int rows, int per_sequence) {
  CaptureDraft train, inf;
  train.vocabulary = inf.vocabulary = 6;
  train.metadata["kernel"] = "p", inf.metadata["kernel"] = "q";
  for (CaptureDraft* draft : {&train, &inf}) draft->metadata["token_source"] = "q";
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (int row = 0; row < rows; ++row) {
    std::vector<float> z(6), y(6);
    for (std::size_t v = 0; v < 6; ++v) y[v] = normal(random), z[v] = y[v] + 0.1F * normal(random);
    const int token = static_cast<int>(random() % 6);
    train.add_row(row / per_sequence, row % per_sequence, token, z);
    inf.add_row(row / per_sequence, row % per_sequence, token, y);
  }
  return {train, inf};
}

MeasurementTable measured(const CaptureDraft& train, const CaptureDraft& inf) {
  const TemporaryFolder folder;
  train.write(folder / "train.safetensors");
  inf.write_parts(folder / "inf", {train.sequences.size() / 3, train.sequences.size()});
  const auto opened_train = Capture::open(folder / "train.safetensors");
  const auto opened_inf = Capture::open(folder / "inf");
  if (!opened_train) FAIL(opened_train.error().describe());
  if (!opened_inf) FAIL(opened_inf.error().describe());
  auto table = measure_with_bits(*opened_train, *opened_inf, nullptr, {}, {});
  if (!table) FAIL(table.error().describe());
  return std::move(*table);
}

std::uint64_t rows_tested(const MeasurementTable& table) {
  std::uint64_t out = 0;
  for (const SequenceRow& row : table.sequences) out += row.support ? row.support->rows : 0;
  return out;
}

}  // namespace

TEST_CASE("each row of full logits whose token K_inf sampled is tested, and the table keeps the sums") {
  const auto [train, inf] = drafts(60, 10);
  const MeasurementTable table = measured(train, inf);
  CHECK(rows_tested(table) == 60);
  const auto again = deserialise(serialise(table));
  REQUIRE(again.has_value());
  REQUIRE(again->sequences[2].support.has_value());
  CHECK(again->sequences[2].support->filters == table.sequences[2].support->filters);
  CHECK(again->sequences[2].support->untaken == table.sequences[2].support->untaken);
}

TEST_CASE("of many rows, ones spread evenly over all sequences are tested") {
  const auto [train, inf] = drafts(6'000, 10);
  const MeasurementTable table = measured(train, inf);
  CHECK(rows_tested(table) == kMostSupportRows);
  for (const SequenceRow& row : table.sequences) {
    REQUIRE(row.support.has_value());
    CHECK(row.support->rows >= 6);
    CHECK(row.support->rows <= 7);
  }
}

TEST_CASE("nothing is tested where nothing can be: other tokens, a filter, one kernel, rows out of order") {
  const auto with = [](const char* key, const char* value) {
    auto [train, inf] = drafts(20, 10);
    train.metadata[key] = inf.metadata[key] = value;
    return rows_tested(measured(train, inf));
  };
  CHECK(with("token_source", "corpus") == 0);
  CHECK(with("token_source", "p") == 0);
  CHECK(with("sampling_filter", "top_p=0.9") == 0);
  CHECK(with("kernel", "q") == 0);
  CHECK(with("sampling_filter", "none") == 20);
  auto [train, inf] = drafts(20, 10);
  for (CaptureDraft* draft : {&train, &inf}) std::swap(draft->positions[3], draft->positions[4]);
  CHECK(rows_tested(measured(train, inf)) == 19);
}
