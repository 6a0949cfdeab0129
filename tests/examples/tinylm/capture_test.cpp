#include "examples/tinylm/src/capture.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "examples/tinylm/src/sampler.hpp"
#include "tests/examples/tinylm/fixtures.hpp"

using namespace tinylm;
using tinylm_tests::engine;
using tinylm_tests::shipped;
using tinylm_tests::TemporaryFolder;

namespace {

TensorFile captured(Precision precision, const CaptureOptions& options) {
  Engine kernel = engine(precision);
  const auto rows = write_capture(kernel, tinylm_tests::model().checkpoint_digest, options);
  REQUIRE_MESSAGE(rows.has_value(), (rows ? "" : rows.error().message));
  return read_safetensors(options.out).value();
}

const std::string kCorpus = shipped("data/numeric.jsonl");
const std::string kTrain = shipped("data/captures/numeric_train.safetensors");

}  // namespace

TEST_CASE("the f32 kernel repeats K_train's capture row by row") {
  const TemporaryFolder folder;
  const TensorFile train = read_safetensors(kTrain).value();
  TensorFile ours = captured(Precision::f32, {.corpus = kCorpus, .out = folder.file("f32")});
  for (const char* name : {"token_ids", "sequence_ids", "positions"})
    CHECK(ours.tensors[name].integers == train.tensors.at(name).integers);
  for (const char* name :
       {"checkpoint.digest", "corpus.digest", "temperature", "sampling_filter", "token_source"})
    CHECK(ours.metadata[name] == train.metadata.at(name));
  CHECK(ours.metadata["kernel"] == "tinylm-f32");
  const auto &a = ours.tensors["logits"].floats, &b = train.tensors.at("logits").floats;
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  // Two float32 programs: 4 layers of sums of at most 384 terms, logits of size 30 at most.
  CHECK(most < 4 * 384 * 30 * 0x1p-24);
}

TEST_CASE("a capture like another takes its rows") {
  const TemporaryFolder folder;
  TensorFile short_one =
      captured(Precision::int8, {.corpus = kCorpus, .out = folder.file("a"), .positions = 3});
  TensorFile like =
      captured(Precision::bf16, {.corpus = kCorpus, .out = folder.file("b"), .like = folder.file("a")});
  CHECK(like.tensors["positions"].integers == short_one.tensors["positions"].integers);
  CHECK(like.tensors["logits"].floats != short_one.tensors["logits"].floats);
}

TEST_CASE("a capture of another corpus is refused as a model for rows") {
  const TemporaryFolder folder;
  Engine kernel = engine(Precision::f32);
  const auto refused =
      write_capture(kernel, tinylm_tests::model().checkpoint_digest,
                    {.corpus = shipped("data/calibration.jsonl"), .out = folder.file("x"), .like = kTrain});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("another corpus") != std::string::npos);
}

TEST_CASE("rollouts are a corpus whose source is the kernel, and its capture scores every sampled token") {
  const TemporaryFolder folder;
  Engine kernel = engine(Precision::bf16);
  const RolloutOptions options{.prompts = shipped("data/rollout_prompts.jsonl"),
                               .out = folder.file("r"),
                               .capture = folder.file("c"),
                               .max_tokens = 4};
  const auto rows = write_rollouts(kernel, tinylm_tests::model().checkpoint_digest, options);
  REQUIRE(rows.has_value());
  const Corpus corpus = read_corpus(options.out, 512).value();
  CHECK(corpus.token_source == "tinylm-bf16");
  std::size_t sampled = 0;
  for (const Sequence& sequence : corpus.sequences) sampled += sequence.tokens.size() - sequence.score_from;
  CHECK(sampled == *rows);
  TensorFile again =
      captured(Precision::f32, {.corpus = options.out, .out = folder.file("f32"), .like = options.capture});
  CHECK(again.metadata["token_source"] == "tinylm-bf16");
  CHECK(again.tensors["token_ids"].integers.size() == *rows);
}

TEST_CASE("sequences that are continued together draw the random numbers that they draw alone") {
  const TemporaryFolder folder;
  std::vector<Corpus> corpora;
  for (const std::size_t batch : {1U, 7U}) {
    Engine kernel = engine(Precision::int8);  // exact sums in every product but the head's
    const RolloutOptions options{.prompts = shipped("data/rollout_prompts.jsonl"),
                                 .out = folder.file("r" + std::to_string(batch)),
                                 .capture = folder.file("c" + std::to_string(batch)),
                                 .max_tokens = 4,
                                 .batch = batch};
    REQUIRE(write_rollouts(kernel, tinylm_tests::model().checkpoint_digest, options).has_value());
    corpora.push_back(read_corpus(options.out, 512).value());
    const TensorFile capture = read_safetensors(options.capture).value();
    std::size_t row = 0;
    for (const Sequence& sequence : corpora.back().sequences)
      for (std::size_t t = sequence.score_from; t < sequence.tokens.size(); ++t, ++row)
        CHECK(capture.tensors.at("token_ids").integers[row] == sequence.tokens[t]);
  }
  std::size_t same = 0;
  for (std::size_t i = 0; i < corpora[0].sequences.size(); ++i)
    same += corpora[0].sequences[i].tokens == corpora[1].sequences[i].tokens ? 1U : 0U;
  CHECK(same + 2 >= corpora[0].sequences.size());  // roundings of attention may turn a draw
}

TEST_CASE("a top-p sampler keeps the fewest most likely tokens that hold the share") {
  std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.1f), std::log(0.4f)};
  keep_top_share(logits, 0.85);
  CHECK(std::isfinite(logits[0]));  // of two that are as likely, the lower id
  CHECK(std::isinf(logits[2]));
  keep_top_share(logits, 0.4);
  CHECK(std::isfinite(logits[1]));
  CHECK(std::isinf(logits[3]));
}

TEST_CASE("rollouts of a filtered sampler say so, and hold the logits that were sampled from") {
  const TemporaryFolder folder;
  Engine kernel = engine(Precision::f32);
  RolloutOptions options{.prompts = shipped("data/rollout_prompts.jsonl"),
                         .out = folder.file("r"),
                         .capture = folder.file("c"),
                         .max_tokens = 2,
                         .top_p = 0.5};
  REQUIRE(write_rollouts(kernel, tinylm_tests::model().checkpoint_digest, options).has_value());
  TensorFile capture = read_safetensors(options.capture).value();
  CHECK(capture.metadata["sampling_filter"] == "top_p=0.5");
  const auto& logits = capture.tensors["logits"].floats;
  const auto& tokens = capture.tensors["token_ids"].integers;
  const std::size_t width = logits.size() / tokens.size();
  std::size_t masked = 0;
  for (std::size_t row = 0; row < tokens.size(); ++row)
    CHECK(std::isfinite(logits[row * width + static_cast<std::size_t>(tokens[row])]));
  for (const float z : logits) masked += std::isinf(z) ? 1U : 0U;
  CHECK(masked > logits.size() / 2);
  options.top_p = 0;
  CHECK_FALSE(write_rollouts(kernel, tinylm_tests::model().checkpoint_digest, options).has_value());
}

TEST_CASE("a corpus with a fault is refused by line") {
  const TemporaryFolder folder;
  const std::string good = R"({"sequence":0,"text":"abc"})";
  for (const std::string bad : {"{", "[]", R"({"sequence":1})", R"({"sequence":1,"token_ids":[256,257]})",
                                R"({"sequence":1,"token_ids":[256,1],"score_from":2})", R"({"text":"ab"})",
                                R"({"sequence":1,"text":"ab","token_source":"other"})"}) {
    CAPTURE(bad);
    std::ofstream(folder.file("c"), std::ios::trunc) << good << '\n' << bad << '\n';
    const auto refused = read_corpus(folder.file("c"), 512);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("line 2") != std::string::npos);
  }
}
