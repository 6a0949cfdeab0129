#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/jobs/manifest.hpp"
#include "gpu/capture/capture.hpp"
#include "schema/sha256.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::run_captured;

namespace {

const std::string kOpenAi =
    R"({"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,-0.5],"top_logprobs":[null,{"b":-0.5,"c":-2.25}]}}]})";
const std::string kVllm =
    R"({"prompt_token_ids":[5,6],"prompt_logprobs":[null,{"6":{"logprob":-0.5,"rank":1},"7":{"logprob":-1.5,"rank":2}}]})";
const std::string kSglang = R"({"meta_info":{"output_token_logprobs":[[-0.5,3,null]]}})";

/// Imports files as a new capture; `out` is its path.
Ran import(const std::string& format, const std::vector<std::string>& files,
           const std::vector<std::string>& more, std::string& out) {
  out = file_with("") + ".safetensors";
  std::vector<std::string> words{"capture", "import", "--format", format, "--out", out};
  words.insert(words.end(), files.begin(), files.end());
  words.insert(words.end(), more.begin(), more.end());
  return run_captured(words);
}

}  // namespace

TEST_CASE("answers of each shape become a capture that says what it was told of them") {
  const std::string map = file_with(R"({"a":1,"b":2,"c":3})");
  const std::tuple<const char*, std::string, std::vector<std::string>, const char*> shapes[] = {
      {"openai", kOpenAi, {"--token-map", map}, "1 rows of 1 sequences, mode topk, up to 2 tokens listed\n"},
      {"vllm", kVllm, {}, "1 rows of 1 sequences, mode topk, up to 2 tokens listed\n"},
      {"sglang", kSglang, {}, "1 rows of 1 sequences, mode realised\n"},
  };
  for (const auto& [format, text, more, said] : shapes) {
    CAPTURE(format);
    std::string out;
    auto labels = more;
    labels.insert(labels.end(), {"--kernel", "k", "--checkpoint-digest", "sha256:c", "--corpus-digest",
                                 "sha256:d", "--token-source", "k2", "--sampling-filter", "top_p",
                                 "--temperature", "0.5", "--first-sequence", "40"});
    const Ran ran = import(format, {file_with(text)}, labels, out);
    CAPTURE(ran.err);
    REQUIRE(ran.exit_code == 0);
    CHECK(ran.out == out + ": " + said);
    const auto capture = gpu::Capture::open(out);
    REQUIRE(capture);
    const auto& identity = capture->identity();
    CHECK(identity.kernel == "k");
    CHECK(identity.checkpoint_digest == "sha256:c");
    CHECK(identity.corpus_digest == "sha256:d");
    CHECK(identity.token_source == "k2");
    CHECK(identity.sampling_filter == "top_p");
    CHECK(identity.temperature == 0.5);
    CHECK(capture->sequence_ids().front() == 40);
  }
}

TEST_CASE("answers that list fewer tokens than they count are left out, which is said with their number") {
  const std::string whole =
      R"({"completion_probabilities":[{"id":3,"token":"x","logprob":-0.5}],"tokens_predicted":1})";
  const std::string merged =
      R"({"completion_probabilities":[{"id":3,"token":"ä","logprob":-0.5}],"tokens_predicted":2})";
  std::string out;
  const std::string file = file_with(whole + "\n" + merged + "\n" + merged + "\n");
  const Ran ran = import("llamacpp", {file}, {}, out);
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(has(ran.out, "1 rows of 3 sequences"));
  CHECK(has(ran.err, "2 of 3 answers were left out, the first of them " + file + ", line 2"));
  const Ran none = import("llamacpp", {file_with(merged)}, {}, out);
  CHECK(none.exit_code != 0);
  CHECK(has(none.err, "1 of 1 answers were left out"));
}

TEST_CASE("several files are one capture, their sequences counted on, and JSON Lines are several answers") {
  std::string out;
  const Ran ran =
      import("vllm", {file_with(kVllm + "\n" + kVllm + "\n"), file_with("[" + kVllm + "]")}, {}, out);
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(has(ran.out, "3 rows of 3 sequences"));
  const auto capture = gpu::Capture::open(out);
  REQUIRE(capture);
  for (std::int64_t i = 0; i < 3; ++i) CHECK(capture->sequence_ids()[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("answers that break a rule are refused by file and member, and no capture is written") {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  const std::tuple<const char*, std::string, const char*> answers[] = {
      {"vllm", "", "JSON"},
      {"vllm", "{", "JSON"},
      {"vllm", "[]", ""},
      {"vllm", "{}", "prompt_logprobs"},
      {"vllm", deep, "nesting"},
      {"vllm", R"({"prompt_token_ids":[5,6],"prompt_logprobs":[null]})", ""},
      {"vllm", R"({"prompt_token_ids":[5,"6"],"prompt_logprobs":[null,{"6":{"logprob":-0.5,"rank":1}}]})",
       ""},
      {"vllm", R"({"prompt_token_ids":[5,6],"prompt_logprobs":[null,{"6":-0.5}]})", "/prompt_logprobs/1/6"},
      {"vllm", kVllm + "\nnot json\n", "JSON"},
      {"openai", kOpenAi, "--token-map"},
      {"openai", R"({"choices":[{"logprobs":null}]})", "logprobs"},
      {"chat", R"({"choices":[{"message":{"content":"x"}}]})", "logprobs"},
      {"sglang", R"({"meta_info":{}})", ""},
      {"sglang", "\xFF\xFE", ""},
      {"llamacpp", R"({"completion_probabilities":[{"content":"x","probs":[]}]})", ""},
      {"llamacpp-logits", "no logits", ""},
      {"llamacpp-logits", "", ""},
      {"llamacpp-logits", std::string("_logits_\xFF\xFF\xFF\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF\x7F", 20), ""},
  };
  for (const auto& [format, text, words] : answers) {
    CAPTURE(format);
    CAPTURE(text.substr(0, 80));
    const std::string file = file_with(text);
    std::string out;
    const Ran ran = import(format, {file}, {}, out);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 4);
    CHECK(ran.err.starts_with("driftgate: "));
    CHECK(has(ran.err, words));
    CHECK(ran.out.empty());
    CHECK_FALSE(std::filesystem::exists(out));
    CHECK_FALSE(std::filesystem::exists(out + ".partial"));
  }
}

TEST_CASE("token maps that are none are refused before a capture is written") {
  for (const char* map : {"", "[]", "{\"a\":\"1\"}", "{\"a\":-1}", "{\"a\":1.5}", "{\"a\":1,\"a\":2}"}) {
    CAPTURE(map);
    std::string out;
    const Ran ran = import("openai", {file_with(kOpenAi)}, {"--token-map", file_with(map)}, out);
    CHECK(ran.exit_code == 4);
    CHECK_FALSE(std::filesystem::exists(out));
  }
  std::string out;
  const Ran outside = import("vllm", {file_with(kVllm)}, {"--vocabulary", "7"}, out);
  CAPTURE(outside.err);
  CHECK(outside.exit_code != 0);
  CHECK(has(outside.err, "7"));
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("inputs that are no files are named, and so is an output that takes an input's place") {
  std::string out;
  const std::string folder = "tests/vectors";
  const std::pair<std::string, const char*> inputs[] = {
      {folder, "is a folder; name the files in it"},
      {folder + "/none", "cannot open"},
      {"/dev/zero", "is not a regular file; save the answers to one first"},
  };
  for (const auto& [path, words] : inputs) {
    const Ran ran = import("vllm", {file_with(kVllm), path}, {}, out);
    CHECK(ran.exit_code == 74);
    CHECK(has(ran.err, words));
    CHECK(has(ran.err, path));
    CHECK_FALSE(std::filesystem::exists(out));
  }
  const std::string map = file_with("{}");
  const Ran over = run_captured(
      {"capture", "import", "--format", "openai", "--out", map, "--token-map", map, file_with(kOpenAi)});
  CHECK(over.exit_code == 64);
  CHECK(cli::test::text_of_file(map) == "{}");
}

TEST_CASE("the digests that captures must state are those of the weights and of the corpus") {
  const std::string corpus = file_with("{\"sequence\": 0}\n");
  const auto weights = std::filesystem::path(corpus).parent_path() / "weights";
  std::filesystem::create_directories(weights);
  std::filesystem::copy_file(corpus, weights / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  const auto manifest = jobs::checkpoint_manifest(weights.string(), {weights.parent_path().string()});
  REQUIRE_MESSAGE(manifest.has_value(), (manifest ? "" : manifest.error().describe()));
  const Ran both = run_captured({"capture", "digest", "--checkpoint", weights.string(), "--corpus", corpus});
  INFO(both.err);
  CHECK(both.exit_code == 0);
  CHECK(both.out == "checkpoint.digest  " + manifest->digest + "\ncorpus.digest      " +
                        schema::sha256_digest("{\"sequence\": 0}\n") + "\n");
  const Ran one = run_captured({"capture", "digest", "--corpus", corpus, "--json"});
  CHECK(nlohmann::json::parse(one.out) ==
        nlohmann::json{{"corpus.digest", schema::sha256_digest("{\"sequence\": 0}\n")}});
  CHECK(run_captured({"capture", "digest"}).exit_code == 64);
  CHECK(run_captured({"capture", "digest", "--checkpoint", "/none"}).exit_code == 74);
  CHECK(run_captured({"capture", "digest", "--corpus", "/none"}).exit_code == 74);
}
