#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "gpu/drift.hpp"
#include "gpu/ingest/engine_rows.hpp"
#include "gpu/table/summary.hpp"
#include "tests/gpu/partial_pair.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::ingest;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kContext = 8, kVocabulary = 21, kChunks = 2, kRows = 3;

template <typename T>
void put(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

/// One row as the tool's description says: 16 bits from the least log-probability, at most 16 nats down.
void put_row(std::string& out, const std::vector<double>& probabilities) {
  double most = -INFINITY, least = INFINITY;
  for (const double p : probabilities)
    most = std::max(most, std::log(p)), least = std::min(least, std::log(p));
  least = std::max(least, most - 16);
  const auto scale = static_cast<float>((most - least) / 65'535);
  put(out, scale);
  put(out, static_cast<float>(least));
  for (const double p : probabilities) {
    const double steps = (std::log(p) - least) / static_cast<double>(scale);
    put(out, static_cast<std::uint16_t>(std::clamp(std::round(steps), 0.0, 65'535.0)));
  }
  if (probabilities.size() % 2 != 0) put(out, std::uint16_t{0});
}

std::string saved(const std::vector<std::vector<double>>& rows) {
  std::string out = "_logits_";
  for (const std::uint32_t n : {kContext, kVocabulary, kChunks}) put(out, n);
  for (std::uint32_t i = 0; i < kContext * kChunks; ++i) put(out, static_cast<std::int32_t>(i % kVocabulary));
  for (const auto& row : rows) put_row(out, row);
  return out;
}

struct Text {
  std::vector<TruePair> pairs;
  std::string train, inf;
};

Text random_text(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Text out;
  std::vector<std::vector<double>> p, q;
  for (std::uint32_t i = 0; i < kRows * kChunks; ++i) {
    out.pairs.push_back(random_pair(random, kVocabulary));
    p.push_back(out.pairs.back().p);
    q.push_back(out.pairs.back().q);
  }
  out.train = saved(p);
  out.inf = saved(q);
  return out;
}

Capture imported(const TemporaryFolder& folder, const std::string& bytes, std::size_t listed) {
  ReadOptions options;
  options.listed = listed;
  const auto rows = read_saved_logits(bytes, options, "logits.kld");
  if (!rows) FAIL(rows.error().describe());
  REQUIRE(write_capture(*rows, {}, folder / "c.safetensors"));
  auto capture = Capture::open(folder / "c.safetensors");
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("saved logits give the second half of each chunk, the next token and the rounding") {
  const Text text = random_text(1);
  ReadOptions options;
  options.listed = 5;
  options.first_sequence = 3;
  const auto rows = read_saved_logits(text.train, options, "logits.kld");
  REQUIRE(rows);
  REQUIRE(rows->rows.size() == kRows * kChunks);
  CHECK(rows->vocabulary == kVocabulary);
  CHECK(rows->sequences == kChunks);
  CHECK(rows->rows[0].position == 5);  // row 4 is followed by token 5
  CHECK(rows->rows[0].token == 5);
  CHECK(rows->rows[3].sequence == 4);
  CHECK(rows->rows[3].token == (kContext + 5) % kVocabulary);
  CHECK(rows->logprob_error > 0);
  CHECK(rows->logprob_error <= 16.0 / 65'535 / 2 + 1e-9);
  for (std::size_t i = 0; i < rows->rows.size(); ++i) {
    CHECK(rows->rows[i].list.size() <= 5);
    for (const ListedToken& token : rows->rows[i].list) {
      const double truth = std::log(text.pairs[i].p[static_cast<std::size_t>(token.id)]);
      // Half a step, and float32 of a value under 32.
      CHECK(std::abs(static_cast<double>(token.logprob) - truth) <= rows->logprob_error + 4e-6);
    }
  }
}

TEST_CASE("bounds from two files of saved logits hold of the distributions before the rounding") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    TemporaryFolder folder;
    const Text text = random_text(seed);
    const std::size_t listed = 1 + seed % (kVocabulary + 3);
    const Capture train = imported(folder, text.train, listed);
    const Capture inf = imported(folder, text.inf, listed);
    const auto table = measure(train, inf, nullptr, {});
    REQUIRE(table);
    const Summary summary = summarise(*table);
    for (const BoundSummary& bounds : summary.bounds) {
      if (bounds.metric == Metric::logit_max_abs) continue;
      double mean = 0;
      for (const TruePair& pair : text.pairs) {
        mean += truth_of(pair, 10)[static_cast<std::size_t>(bounds.metric)] / (kRows * kChunks);
      }
      CAPTURE(schema::to_string(bounds.metric));
      CHECK(bounds.mean_lower <= mean + 1e-9);
      CHECK(bounds.mean_upper >= mean - 1e-9);
    }
  }
}

TEST_CASE("a token more than 16 nats under the top is unknown and not 16 nats under it") {
  std::vector<std::vector<double>> rows(kRows * kChunks, std::vector<double>(kVocabulary, 1e-12));
  for (auto& row : rows) row[2] = 1 - 20e-12;
  const auto read = read_saved_logits(saved(rows), {}, "logits.kld");
  REQUIRE(read);
  CHECK(read->rows[0].list.size() == 1);
  CHECK_FALSE(read->rows[0].logprob);
}

TEST_CASE("every truncation of saved logits and every broken header is refused by name") {
  const std::string bytes = random_text(1).train;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(read_saved_logits(std::string_view(bytes).substr(0, size), {}, "cut"));
  }
  CHECK_FALSE(read_saved_logits(bytes + "x", {}, "long"));
  const auto refused = [&](std::size_t offset, auto value) {
    std::string changed = bytes;
    std::memcpy(changed.data() + offset, &value, sizeof(value));
    const auto rows = read_saved_logits(changed, {}, "changed");
    REQUIRE_FALSE(rows);
    return rows.error().message;
  };
  CHECK(contains(refused(0, char{'x'}), "does not start with _logits_"));
  CHECK(contains(refused(8, std::uint32_t{0}), "context"));
  CHECK(contains(refused(8, std::uint32_t{0xffffffff}), "context"));
  CHECK(contains(refused(12, std::uint32_t{0}), "vocabulary"));
  CHECK(contains(refused(12, std::uint32_t{0xffffffff}), "vocabulary"));
  CHECK(contains(refused(16, std::uint32_t{0}), "chunks"));
  CHECK(contains(refused(16, std::uint32_t{3}), "is it truncated"));
  CHECK(contains(refused(20 + 4 * 5, std::int32_t{21}), "outside the vocabulary"));
  std::string large = bytes;
  const std::uint32_t context = 1U << 20, vocabulary = 1U << 17;
  std::memcpy(large.data() + 8, &context, 4);
  std::memcpy(large.data() + 12, &vocabulary, 4);
  const auto too_many = read_saved_logits(large, {}, "large");
  REQUIRE_FALSE(too_many);
  CHECK(contains(too_many.error().message, "keep fewer (--top-k)"));
  const std::size_t first_row = 20 + 4 * kContext * kChunks;
  CHECK(contains(refused(first_row, NAN), "has an impossible scale"));
  CHECK(contains(refused(first_row, 1.0F), "has an impossible scale"));
  CHECK(contains(refused(first_row + 4, 1.0F), "has an impossible scale"));
  CHECK(contains(refused(first_row + 4, -HUGE_VALF), "has an impossible scale"));
  CHECK(contains(refused(first_row + 8, std::array<std::uint16_t, kVocabulary>{}), "of no token"));
}
