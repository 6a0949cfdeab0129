#include <doctest/doctest.h>

#include <cmath>

#include "gpu/drift.hpp"
#include "gpu/ingest/engine_rows.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::ingest;
using namespace driftgate::gpu::test;

namespace {

const std::string kOpenAi = R"({"choices":[{"text":"ab","logprobs":{
  "tokens":["a","b","a"],"token_logprobs":[null,-0.5,-2.25],
  "top_logprobs":[null,{"b":-0.5,"a":-1.5},{"b":-0.25,"a":-2.25}],"text_offset":[0,1,2]}}]})";
const std::string kChat = R"({"choices":[{"message":{"content":"ba"},"logprobs":{"content":[
  {"token":"token_id:7","logprob":-0.5,"top_logprobs":[{"token":"token_id:7","logprob":-0.5},{"token":"token_id:9","logprob":-1.5}]},
  {"token":"token_id:9","logprob":-9999.0,"top_logprobs":[{"token":"token_id:7","logprob":-0.25}]}]}}]})";
const std::string kVllm = R"({"choices":[{"text":"x","prompt_token_ids":[5,6,7],"prompt_logprobs":[null,
  {"6":{"logprob":-3.5,"rank":9,"decoded_token":"x"},"1":{"logprob":-0.5,"rank":1},"2":{"logprob":-1.5,"rank":2}},
  {"7":{"logprob":-0.25,"rank":1},"8":{"logprob":-2.5,"rank":2}}]}]})";
const std::string kSglang = R"([{"text":"x","meta_info":{
  "input_token_logprobs":[[null,5,null],[-0.5,6,null]],
  "input_top_logprobs":[null,[[-0.5,6,null],[-1.5,4,null]]],
  "output_token_logprobs":[[-0.75,8,null]],"output_top_logprobs":[[[-0.75,8,null],[-2.0,3,null]]],
  "input_token_ids_logprobs":[null,[[-4.0,1,null]]],"output_token_ids_logprobs":[[[-5.0,1,null]]]}}])";
const std::string kLlamaCpp = R"({"content":"x","completion_probabilities":[
  {"id":3,"token":"x","bytes":[120],"logprob":-0.5,"top_logprobs":[{"id":3,"token":"x","logprob":-0.5},{"id":4,"token":"y","logprob":-1.5}]}]})";

EngineRows must_read(Format format, std::string_view text, const ReadOptions& options = {}) {
  auto rows = read_responses(format, text, options, "answer.json");
  if (!rows) FAIL(rows.error().describe());
  return std::move(*rows);
}

std::string refusal(Format format, std::string_view text, const ReadOptions& options = {}) {
  const auto rows = read_responses(format, text, options, "answer.json");
  REQUIRE_FALSE(rows);
  return rows.error().describe();
}

ReadOptions with_map() {
  ReadOptions out;
  out.tokens.add("a", 1);
  out.tokens.add("b", 2);
  return out;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const std::pair<Format, const std::string*> kAll[] = {{Format::openai, &kOpenAi},
                                                      {Format::chat, &kChat},
                                                      {Format::vllm, &kVllm},
                                                      {Format::sglang, &kSglang},
                                                      {Format::llamacpp, &kLlamaCpp}};

}  // namespace

TEST_CASE("completions give a row for each token that is known, by the token map's ids") {
  const EngineRows rows = must_read(Format::openai, kOpenAi, with_map());
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].position == 1);
  CHECK(rows.rows[0].token == 2);
  CHECK(rows.rows[0].logprob == -0.5F);
  REQUIRE(rows.rows[1].list.size() == 2);
  CHECK(rows.rows[1].list[0].id == 1);
  CHECK(rows.rows[1].list[0].logprob == -2.25F);
}

TEST_CASE("a response without ids is refused because a token map is missing") {
  CHECK(contains(refusal(Format::openai, kOpenAi), "--token-map"));
  ReadOptions half;
  half.tokens.add("b", 2);
  CHECK(contains(refusal(Format::openai, kOpenAi, half), "the token map does not contain it"));
}

TEST_CASE("chat answers are read, and -9999 is unknown") {
  const EngineRows rows = must_read(Format::chat, kChat);
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].token == 7);
  CHECK(rows.rows[0].list[1].id == 9);
  CHECK_FALSE(rows.rows[1].logprob);
  CHECK(rows.rows[1].list.size() == 1);
}

TEST_CASE("vLLM's target token is listed only when its rank is among the others'") {
  const EngineRows rows = must_read(Format::vllm, kVllm);
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].token == 6);
  CHECK(rows.rows[0].logprob == -3.5F);
  CHECK(rows.rows[0].list.size() == 2);
  CHECK(rows.rows[1].list.size() == 2);
  std::string without = kVllm;
  without.replace(without.find("prompt_token_ids"), 16, "prompt_token_xxx");
  CHECK(contains(refusal(Format::vllm, without), "return_token_ids"));
  CHECK(contains(refusal(Format::vllm, R"({"prompt_token_ids":[5,6],"prompt_logprobs":[null,{"6":-0.5}]})"),
                 "/prompt_logprobs/1/6 is not an object with 'logprob'"));
}

TEST_CASE("SGLang's input and output follow each other, and the requested ids are matched support") {
  const EngineRows rows = must_read(Format::sglang, kSglang);
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].position == 1);
  CHECK(rows.rows[1].position == 2);
  CHECK(rows.rows[1].token == 8);
  CHECK(rows.rows[1].list[1].id == 3);
  ReadOptions matched;
  matched.matched = true;
  const EngineRows named = must_read(Format::sglang, kSglang, matched);
  CHECK(named.rows[0].list[0].logprob == -4.0F);
  const std::string none = R"({"meta_info":{"output_token_logprobs":[[-0.5,3,null]]}})";
  CHECK(must_read(Format::sglang, none).rows.size() == 1);
  CHECK(contains(refusal(Format::sglang, none, matched), "ask SGLang for token_ids_logprob"));
}

TEST_CASE("llama.cpp's server is read, and probabilities after sampling are refused") {
  const EngineRows rows = must_read(Format::llamacpp, kLlamaCpp);
  REQUIRE(rows.rows.size() == 1);
  CHECK(rows.rows[0].list[1].id == 4);
  CHECK(contains(refusal(Format::llamacpp, R"({"completion_probabilities":[{"content":"x","probs":[]}]})"),
                 "after sampling"));
}

TEST_CASE("JSON Lines give a sequence for each line") {
  std::string line = kChat;
  std::erase(line, '\n');
  ReadOptions options;
  options.first_sequence = 40;
  const EngineRows rows = must_read(Format::chat, line + "\n\n" + line + "\n", options);
  CHECK(rows.sequences == 2);
  CHECK(rows.rows.back().sequence == 41);
  CHECK(contains(refusal(Format::chat, line + "\n{\"choices\":1}\n"), "answer.json, line 2"));
}

TEST_CASE("what is missing in a response is named with its place") {
  CHECK(contains(refusal(Format::openai, "{}"), "has no list 'choices'"));
  CHECK(contains(refusal(Format::chat, R"({"choices":[{"message":{}}]})"), "/choices/0 has no 'logprobs'"));
  CHECK(contains(refusal(Format::vllm, R"({"choices":[{}]})"), "has no 'prompt_logprobs'"));
  CHECK(contains(refusal(Format::sglang, "{}"), "has no 'meta_info'"));
  CHECK(contains(refusal(Format::sglang, R"({"meta_info":{}})"), "return_logprob"));
  CHECK(contains(refusal(Format::llamacpp, "{}"), "n_probs"));
  CHECK(contains(refusal(Format::llamacpp_logits, "{}"), "is a binary format"));
}

TEST_CASE("a token that is listed twice and an invalid id are refused") {
  std::string twice = kLlamaCpp;
  twice.replace(twice.find("\"id\":4"), 6, "\"id\":3");
  CHECK(contains(refusal(Format::llamacpp, twice), "lists token 3 twice"));
  std::string negative = kLlamaCpp;
  negative.replace(negative.find("\"id\":4"), 6, "\"id\":-4");
  CHECK(contains(refusal(Format::llamacpp, negative),
                 "/completion_probabilities/0/top_logprobs/1/id is not a token id"));
}

TEST_CASE("an id that a capture cannot hold is refused and not truncated") {
  std::string wide = kVllm;
  wide.replace(wide.find("\"2\":{"), 5, "\"4294967297\":{");
  CHECK(contains(refusal(Format::vllm, wide), "is not a token id"));
  TemporaryFolder folder;
  for (const char* id : {"2147483648", "4294967297"}) {
    write_bytes(folder / "map.json", std::string(R"({"a":)") + id + "}");
    const auto map = TokenMap::read(folder / "map.json");
    REQUIRE_FALSE(map);
    CHECK(contains(map.error().message, "gives no id for a"));
  }
}

TEST_CASE("one long list does not make a capture of unlimited size") {
  TemporaryFolder folder;
  EngineRows rows;
  rows.rows.resize(kMaxKept / kMaxListed + 1, {0, 0, 0, -1.0F, {}});
  for (std::size_t id = 0; id < kMaxListed; ++id)
    rows.rows[0].list.push_back({static_cast<std::int64_t>(id), -20.0F});
  const auto written = write_capture(rows, {}, folder / "a.safetensors");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == schema::ErrorCode::limit_exceeded);
  CHECK(contains(written.error().message, "room for 16384 tokens for each of 16385 rows"));
  CHECK_FALSE(std::filesystem::exists(folder / "a.safetensors"));
}

TEST_CASE("every truncation of a response, and every value put in another's place, is refused or read") {
  for (const auto& [format, text] : kAll) {
    for (std::size_t size = 0; size + 1 < text->size(); ++size) {
      CAPTURE(size);
      CHECK_FALSE(read_responses(format, text->substr(0, size), with_map(), "cut"));
    }
    for (const char* other : {"null", "[]", "{}", "1", "-1", "\"x\"", "1e999", "[[[]]]", "true"}) {
      for (std::size_t at = 0; at < text->size(); ++at) {
        const char c = (*text)[at];
        if (c != '[' && c != '{' && c != '-' && c != '"') continue;
        const std::string changed = text->substr(0, at) + other + text->substr(at + 1);
        const auto rows = read_responses(format, changed, with_map(), "changed");
        if (!rows) CHECK_FALSE(rows.error().message.empty());
      }
    }
  }
}

TEST_CASE("what was read becomes a capture that can be measured") {
  TemporaryFolder folder;
  const EngineRows rows = must_read(Format::sglang, kSglang);
  CaptureLabels labels;
  labels.kernel = "k";
  labels.token_source = "k";
  labels.vocabulary = 10;
  REQUIRE(write_capture(rows, labels, folder / "a.safetensors"));
  const auto capture = Capture::open(folder / "a.safetensors");
  REQUIRE(capture);
  CHECK(capture->mode() == CaptureMode::topk);
  CHECK(capture->vocabulary() == 10);
  CHECK(capture->logprobs()[1] == -0.75F);
  const auto table = measure(*capture, *capture, nullptr, {});
  REQUIRE(table);
  CHECK(table->rows == 2);
  labels.vocabulary = 5;
  const auto outside = write_capture(rows, labels, folder / "b.safetensors");
  REQUIRE_FALSE(outside);
  CHECK(contains(outside.error().message, "token 6 of sequence 0, position 1"));
  CHECK_FALSE(write_capture({}, labels, folder / "c.safetensors"));
}

TEST_CASE("a token map is an object from text to id") {
  TemporaryFolder folder;
  write_bytes(folder / "map.json", R"({"a":1,"b":2})");
  const auto map = TokenMap::read(folder / "map.json");
  REQUIRE(map);
  CHECK(map->find("b") == 2);
  CHECK_FALSE(map->find("c"));
  CHECK(map->find("token_id:12") == 12);
  CHECK_FALSE(map->find("token_id:-1"));
  for (const char* bad : {"[]", R"({"a":-1})", R"({"a":"1"})", "{"}) {
    write_bytes(folder / "map.json", bad);
    CHECK_FALSE(TokenMap::read(folder / "map.json"));
  }
}
