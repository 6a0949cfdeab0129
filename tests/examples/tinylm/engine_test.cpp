#include "examples/tinylm/src/engine.hpp"

#include <algorithm>
#include <cmath>

#include "examples/tinylm/src/sampler.hpp"
#include "tests/examples/tinylm/fixtures.hpp"

using namespace tinylm;
using tinylm_tests::engine;

namespace {

Corpus numeric() {
  return read_corpus(tinylm_tests::shipped("data/numeric.jsonl"), 512).value();
}

// Logits of the last token of each sequence, all sequences in one step.
std::vector<float> last_logits(Engine& engine, std::span<const Sequence> sequences) {
  std::vector<Cache> caches;
  for (const Sequence& sequence : sequences) caches.emplace_back(engine.config(), sequence.tokens.size());
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < caches.size(); ++i) chunks.push_back({&caches[i], sequences[i].tokens, 1});
  const auto logits = engine.forward(chunks);
  return {logits.begin(), logits.end()};
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

// Mean total variation to f32 over the last 16 tokens of a language's first 60 sequences.
double mean_tv(Engine& exact, Engine& other, const std::string& language) {
  constexpr std::size_t kRows = 16;
  const Corpus corpus = read_corpus(tinylm_tests::shipped("data/slice.jsonl"), 512).value();
  const auto logits_of = [](Engine& engine, const Sequence& sequence) {
    Cache cache(engine.config(), sequence.tokens.size());
    const Chunk chunk{&cache, sequence.tokens, kRows};
    return engine.forward({&chunk, 1});
  };
  double sum = 0;
  int count = 0;
  for (const Sequence& sequence : corpus.sequences) {
    if (sequence.slices.at("language") != language || count == 60) continue;
    const auto z = logits_of(exact, sequence), y = logits_of(other, sequence);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto p = log_softmax(z.subspan(row * exact.logit_stride(), exact.vocabulary()));
      const auto q = log_softmax(y.subspan(row * other.logit_stride(), other.vocabulary()));
      for (std::size_t i = 0; i < p.size(); ++i) sum += 0.5 * std::abs(std::exp(p[i]) - std::exp(q[i]));
    }
    ++count;
  }
  return sum / (count * static_cast<double>(kRows));
}

}  // namespace

TEST_CASE("one token at a time gives the logits of the whole prompt up to rounding") {
  Engine f32 = engine(Precision::f32);
  const Sequence sequence = numeric().sequences.front();
  const auto whole = last_logits(f32, {&sequence, 1});
  Cache cache(f32.config(), sequence.tokens.size());
  std::vector<float> stepped;
  for (const std::int32_t& token : sequence.tokens) {
    const Chunk chunk{&cache, {&token, 1}, 1};
    const auto logits = f32.forward({&chunk, 1});
    stepped.assign(logits.begin(), logits.end());
  }
  // Logits of size 30 at most, through 4 layers of float32 sums of at most 384 terms.
  CHECK(largest_difference(whole, stepped) < 4 * 384 * 30 * 0x1p-24);
}

TEST_CASE("the batch changes a sequence's logits, a little, and the same batch repeats them") {
  const Corpus corpus = numeric();
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::int8}) {
    Engine kernel = engine(precision);
    CAPTURE(name_of(precision));
    const auto alone = last_logits(kernel, std::span(corpus.sequences).first(1));
    const auto batch = last_logits(kernel, std::span(corpus.sequences).first(8));
    const double difference = largest_difference(alone, std::span(batch).first(alone.size()));
    CHECK(difference > 0);
    CHECK(difference < 1.0);
    CHECK(last_logits(kernel, std::span(corpus.sequences).first(1)) == alone);
  }
}

TEST_CASE("fewer bits drift further") {
  Engine f32 = engine(Precision::f32), bf16 = engine(Precision::bf16), int8 = engine(Precision::int8);
  const double near = mean_tv(f32, bf16, "en"), far = mean_tv(f32, int8, "en");
  CHECK(near > 1e-4);
  CHECK(far > 2 * near);
}

TEST_CASE("scales from English text break the other languages") {
  Engine f32 = engine(Precision::f32), fixed = engine(Precision::int8_static);
  const double english = mean_tv(f32, fixed, "en");
  for (const char* language : {"de", "fr"}) CHECK(mean_tv(f32, fixed, language) > 1.5 * english);
}

TEST_CASE("int8-static without its scales is an error that names what is missing") {
  const auto made = Engine::create(tinylm_tests::model(), Precision::int8_static, {});
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().message.find("layers.0.attention") != std::string::npos);
}
