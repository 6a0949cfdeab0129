#include "gpu/compare_bits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/gpu/partial_draft.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

/// Three sequences of two rows over four tokens.
CaptureDraft draft() {
  CaptureDraft out;
  for (std::int32_t row = 0; row < 6; ++row) {
    out.add_row(10 + row / 2, 5 + row % 2, row % 4, {0.25F, -1.5F, static_cast<float>(row), 0.0F});
  }
  return out;
}

template <typename Draft>
Capture written(const Draft& draft, const std::filesystem::path& path) {
  draft.write(path);
  auto capture = Capture::open(path);
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

template <typename Draft>
MeasurementTable compared(const Draft& train, const Draft& inf, const std::vector<std::string>& wanted) {
  TemporaryFolder folder;
  const Capture a = written(train, folder / "a.safetensors");
  const Capture b = written(inf, folder / "b.safetensors");
  auto table = measure_with_bits(a, b, nullptr, {}, wanted);
  if (!table) FAIL(table.error().describe());
  return std::move(*table);
}

const CaptureFinding& bits_of(const MeasurementTable& table, const std::string& what) {
  const auto found = std::ranges::find(table.partial.findings, bits_finding(what), &CaptureFinding::name);
  if (found == table.partial.findings.end()) FAIL("no finding on ", what);
  return *found;
}

}  // namespace

TEST_CASE("equal captures are equal bit by bit, NaN included, and nothing is said that was not asked for") {
  CaptureDraft same = draft();
  same.logits[6] = std::numeric_limits<float>::quiet_NaN();
  const auto table = compared(same, same, {"logits", "tokens"});
  CHECK(table.partial.findings.size() == 2);
  for (const char* what : {"logits", "tokens"}) {
    const CaptureFinding& finding = bits_of(table, what);
    CHECK(finding.count == 0);
    CHECK(finding.of == 6);
    CHECK_FALSE(finding.decides);
    CHECK(finding.text.find("equal in all 6 rows") != std::string::npos);
  }
  CHECK(compared(same, same, {}).partial.findings.empty());
}

TEST_CASE("the first element that differs is named with its place and both bit patterns") {
  CaptureDraft other = draft();
  other.logits[3 * 4 + 2] = std::nextafter(other.logits[3 * 4 + 2], 10.0F);  // 3.0 and the next above it
  other.logits[5 * 4 + 1] = 7;
  const auto table = compared(draft(), other, {"logits"});
  const CaptureFinding& finding = bits_of(table, "logits");
  CHECK(finding.count == 2);
  CHECK(finding.of == 6);
  CHECK(finding.text.find("sequence 11 at position 6, row 3 of the captures") != std::string::npos);
  CHECK(finding.text.find("element 2 of logits (F32) is 0x40400000 by K_train and 0x40400001 by K_inf") !=
        std::string::npos);
  // The figures are measured all the same.
  CHECK(table.sequences[1].metrics[static_cast<std::size_t>(Metric::logit_max_abs)].max > 0);
}

TEST_CASE("a zero of the other sign differs, and so does a NaN of another payload") {
  CaptureDraft other = draft();
  other.logits[3] = -0.0F;
  auto table = compared(draft(), other, {"logits"});
  CHECK(bits_of(table, "logits").count == 1);
  CHECK(bits_of(table, "logits").text.find("0x00000000 by K_train and 0x80000000 by K_inf") !=
        std::string::npos);

  CaptureDraft nan_train = draft();
  CaptureDraft nan_inf = draft();
  nan_train.logits[0] = std::bit_cast<float>(0x7fc00000U);
  nan_inf.logits[0] = std::bit_cast<float>(0x7fc00001U);
  table = compared(nan_train, nan_inf, {"logits"});
  CHECK(bits_of(table, "logits").count == 1);
  CHECK(bits_of(table, "logits").text.find("0x7fc00000 by K_train and 0x7fc00001 by K_inf") !=
        std::string::npos);
}

TEST_CASE("captures in several files are compared across file boundaries") {
  TemporaryFolder folder;
  CaptureDraft other = draft();
  other.logits[4 * 4] = 1;
  draft().write_parts(folder / "a", {1, 6});
  other.write_parts(folder / "b", {2, 4, 6});
  const auto a = Capture::open(folder / "a");
  const auto b = Capture::open(folder / "b");
  REQUIRE(a);
  REQUIRE(b);
  const auto table = measure_with_bits(*a, *b, nullptr, {}, {"logits"});
  REQUIRE(table);
  CHECK(bits_of(*table, "logits").count == 1);
  CHECK(bits_of(*table, "logits").text.find("row 4 of the captures: element 0") != std::string::npos);
}

TEST_CASE("tensors that captures do not hold, or hold in different types, are refused with the reason") {
  const auto full = compared(draft(), draft(), {"logprobs"});
  CHECK(bits_of(full, "logprobs").of == 0);
  CHECK(bits_of(full, "logprobs").text.find("hold no log-probabilities") != std::string::npos);

  CaptureDraft without = draft();
  without.tokens.clear();
  CHECK(bits_of(compared(without, without, {"tokens"}), "tokens").text.find("hold no tokens") !=
        std::string::npos);

  PartialDraft lists;
  lists.add_row(1, 0, 3, -0.5F, {{3, -0.5F}, {4, -1.5F}});
  const auto partial = compared(lists, lists, {"logits"});
  CHECK(bits_of(partial, "logits").of == 0);
  CHECK(bits_of(partial, "logits").text.find("topk mode hold no logits") != std::string::npos);

  // Halves beside floats: a capture of BF16 is written by hand.
  TemporaryFolder folder;
  const Capture train = written(draft(), folder / "train.safetensors");
  const CaptureDraft floats = draft();
  std::vector<std::uint16_t> halves;
  for (const float value : floats.logits) {
    halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  auto writer = SafetensorsWriter::create(folder / "inf.safetensors",
                                          {{"logits", DType::bf16, {6, 4}},
                                           {"sequence_ids", DType::i32, {6}},
                                           {"token_ids", DType::i32, {6}},
                                           {"positions", DType::i32, {6}}},
                                          floats.metadata);
  REQUIRE(writer);
  REQUIRE(writer->write(0, 0, std::as_bytes(std::span(halves))));
  REQUIRE(writer->write(1, 0, std::as_bytes(std::span(floats.sequences))));
  REQUIRE(writer->write(2, 0, std::as_bytes(std::span(floats.tokens))));
  REQUIRE(writer->write(3, 0, std::as_bytes(std::span(floats.positions))));
  REQUIRE(writer->finish());
  const auto inf = Capture::open(folder / "inf.safetensors");
  REQUIRE(inf);
  const auto table = measure_with_bits(train, *inf, nullptr, {}, {"logits"});
  REQUIRE(table);
  CHECK(bits_of(*table, "logits").of == 0);
  CHECK(bits_of(*table, "logits").text.find("F32 in the capture of K_train and BF16 in that of K_inf") !=
        std::string::npos);
}

TEST_CASE("log-probabilities are those of target tokens and of lists, with the ids that they belong to") {
  PartialDraft lists;
  for (std::int32_t row = 0; row < 4; ++row) lists.add_row(1, row, 3, -0.5F, {{3, -0.5F}, {4, -1.5F}});
  CHECK(bits_of(compared(lists, lists, {"logprobs"}), "logprobs").count == 0);

  PartialDraft other = lists;
  other.logprobs[2] = -0.25F;
  const auto realised = compared(lists, other, {"logprobs"});
  CHECK(bits_of(realised, "logprobs").count == 1);
  CHECK(bits_of(realised, "logprobs").text.find("element 0 of logprobs (F32)") != std::string::npos);

  other = lists;
  other.lists[1][1].second = std::nextafter(-1.5F, 0.0F);
  CHECK(bits_of(compared(lists, other, {"logprobs"}), "logprobs").text.find("element 1 of topk_logprobs") !=
        std::string::npos);

  other = lists;
  other.lists[3][1].first = 7;
  CHECK(bits_of(compared(lists, other, {"logprobs"}), "logprobs")
            .text.find("element 1 of topk_ids (I32) is 4") != std::string::npos);

  other = lists;
  for (PartialDraft::List& list : other.lists) list.pop_back();
  other.columns = 1;
  CHECK(bits_of(compared(lists, other, {"logprobs"}), "logprobs").text.find("the lists have 2 tokens") !=
        std::string::npos);
}

TEST_CASE(
    "captures of different tokens give a table of bit comparisons only, whose other figures are invalid") {
  CaptureDraft other = draft();
  other.tokens[4] = 3;
  const auto table = compared(draft(), other, {"tokens", "logits"});
  CHECK(bits_of(table, "tokens").count == 1);
  CHECK(bits_of(table, "tokens").text.find("sequence 12 at position 5") != std::string::npos);
  CHECK(bits_of(table, "tokens").text.find("is 0 by K_train and 3 by K_inf") != std::string::npos);
  CHECK(bits_of(table, "logits").count == 0);
  const auto decides = std::ranges::find(table.partial.findings, kOtherTokens, &CaptureFinding::name);
  REQUIRE(decides != table.partial.findings.end());
  CHECK(decides->decides);
  CHECK(table.rows == 6);
  CHECK(table.sequences[0].metrics[0].n == 0);
  CHECK(table.sequences[0].metrics[static_cast<std::size_t>(Metric::tv)].n == 0);

  // It is written and read as every table is.
  const auto again = deserialise(serialise(table));
  REQUIRE(again);
  CHECK(bits_of(*again, "tokens").text == bits_of(table, "tokens").text);

  TemporaryFolder folder;
  const Capture a = written(draft(), folder / "a.safetensors");
  const Capture b = written(other, folder / "b.safetensors");
  const auto unasked = measure_with_bits(a, b, nullptr, {}, {"logits"});
  REQUIRE_FALSE(unasked);
  CHECK(unasked.error().code == schema::ErrorCode::not_comparable);

  CaptureDraft elsewhere = other;
  elsewhere.positions[2] = 9;
  const Capture c = written(elsewhere, folder / "c.safetensors");
  const auto moved = measure_with_bits(a, c, nullptr, {}, {"tokens"});
  REQUIRE_FALSE(moved);
  CHECK(moved.error().message.find("positions differs") != std::string::npos);
}
