#include "gpu/ingest/answer_shape.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gpu/ingest/answer_tokens.hpp"

using namespace driftgate;
using namespace driftgate::gpu::ingest;
using nlohmann::json;

namespace {

/// Answers of a llama.cpp server (build 11669) that served one model in two quantisations.
std::string answers(const std::string& name) {
  std::ifstream file("tests/vectors/engine_answers/llamacpp_" + name, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(text.empty());
  return text;
}

EngineRows rows_of(const std::string& text) {
  auto rows = read_responses(std::nullopt, text, {}, "answers");
  if (!rows) FAIL(rows.error().describe());
  return std::move(*rows);
}

void check_alike(const EngineRows& a, const EngineRows& b, std::size_t count, double tolerance) {
  REQUIRE(a.rows.size() >= count);
  REQUIRE(b.rows.size() >= count);
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(a.rows[i].sequence == b.rows[i].sequence);
    CHECK(a.rows[i].position == b.rows[i].position);
    CHECK(a.rows[i].token == b.rows[i].token);
    REQUIRE(a.rows[i].logprob);
    REQUIRE(b.rows[i].logprob);
    CHECK(std::abs(*a.rows[i].logprob - *b.rows[i].logprob) <= tolerance);
    CHECK(a.rows[i].list.size() == b.rows[i].list.size());
  }
}

std::string refusal(const std::string& text) {
  const auto rows = read_responses(std::nullopt, text, {}, "answers");
  REQUIRE_FALSE(rows);
  return rows.error().describe();
}

std::vector<AnswerToken> tokens_of(const std::string& text) {
  const auto tokens = answer_tokens(json::parse(text));
  if (!tokens) FAIL(tokens.error().describe());
  return *tokens;
}

}  // namespace

TEST_CASE("all three shapes of llama.cpp's server are read without options, and say the same") {
  // The server's prompt cache, warm after the first request, changes the batches that the logits come from.
  for (const auto& [kernel, tolerance] : {std::pair("f32", 3e-4), std::pair("Q4_0", 0.02)}) {
    CAPTURE(kernel);
    const auto native = rows_of(answers(std::string("completion_") + kernel + ".jsonl"));
    const auto completions = rows_of(answers(std::string("v1_completions_") + kernel + ".jsonl"));
    const auto chat = rows_of(answers(std::string("v1_chat_") + kernel + ".jsonl"));
    CHECK(native.sequences == 3);
    CHECK(native.rows.size() == 36);
    CHECK(native.rows[0].list.size() == 10);
    check_alike(native, completions, 36, tolerance);
    check_alike(native, chat, 36, tolerance);
  }
}

TEST_CASE("the events of a stream are one sequence, like the answer in one piece") {
  for (const std::string kernel : {"f32", "Q4_0"}) {
    CAPTURE(kernel);
    const auto streamed = rows_of(answers("v1_completions_stream_" + kernel + ".sse"));
    CHECK(streamed.sequences == 1);
    REQUIRE(streamed.rows.size() == 8);
    check_alike(streamed, rows_of(answers("v1_completions_" + kernel + ".jsonl")), 8, 0.02);
  }
  const std::string stream = answers("v1_completions_stream_f32.sse");
  const auto twice = rows_of(stream + stream);
  CHECK(twice.sequences == 2);
  CHECK(twice.rows.size() == 16);
}

TEST_CASE("a stream's choices stay apart, and a new id begins a new answer") {
  const std::string events =
      "event: x\r\ndata: "
      "{\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"p\"},\"logprobs\":{\"content\":"
      "[{\"token\":\"p\",\"id\":1,\"logprob\":-1}]}},{\"index\":1,\"text\":\"q\",\"logprobs\":null}]}\r\n\r\n"
      ": a comment\n"
      "data:{\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"r\"},\"logprobs\":{\"content\":"
      "[{\"token\":\"r\",\"id\":2,\"logprob\":-2}]},\"finish_reason\":\"stop\"}]}\n\n"
      "data: {\"id\":\"b\",\"choices\":[{\"index\":0,\"text\":\"s\"}]}\n\n";
  const auto joined = join_streams(events, "stream");
  REQUIRE(joined);
  REQUIRE(joined->size() == 2);
  const json& first = (*joined)[0]["choices"];
  REQUIRE(first.size() == 2);
  CHECK(first[0]["message"]["content"] == "pr");
  CHECK(first[0]["finish_reason"] == "stop");
  CHECK(first[0]["logprobs"]["content"].size() == 2);
  CHECK(first[1]["text"] == "q");
  CHECK((*joined)[1]["choices"][0]["text"] == "s");
  CHECK(join_streams("data: [DONE]\n\n", "stream")->empty());
}

TEST_CASE("SGLang repeats meta_info in each event, and the last one counts") {
  const std::string event = R"(data: {"text":"x","meta_info":{"output_token_logprobs":[[-0.5,3,null]]}})";
  const std::string later =
      R"(data: {"text":"xy","meta_info":{"output_token_logprobs":[[-0.5,3,null],[-1.5,4,null]]}})";
  const auto rows = rows_of(event + "\n\n" + later + "\n\ndata: [DONE]\n\n");
  CHECK(rows.sequences == 1);
  CHECK(rows.rows.size() == 2);
}

namespace {

/// The lines of an answer file, each as JSON.
std::vector<json> lines_of(const std::string& name) {
  std::vector<json> lines;
  std::istringstream text(answers(name));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string text_of(const std::vector<json>& lines) {
  std::string text;
  for (const json& line : lines) text += line.dump() + "\n";
  return text;
}

/// Puts a character of two bytes in the place of the second token, as the server lists it where it takes two
/// tokens, and one more token in the count.
void merge_second(json& list, json& count) {
  list[1]["token"] = "ä";
  list[1]["bytes"] = {195, 164};
  count = count.get<int>() + 1;
}

}  // namespace

TEST_CASE("the answers of a real server list as many tokens as they count") {
  for (const std::string kernel : {"f32", "Q4_0"}) {
    for (const char* shape : {"completion_", "v1_completions_", "v1_chat_"}) {
      for (const json& answer : lines_of(shape + kernel + ".jsonl")) {
        StatedTokens stated;
        add_stated(answer, stated);
        CHECK(stated.count == 12U);
        CHECK_FALSE(stated.ended);
        CHECK_FALSE(stated.several);
        CHECK(lists_every_token(tokens_of(answer.dump()), stated));
      }
    }
    CHECK(rows_of(answers("v1_completions_stream_" + kernel + ".sse")).incomplete == 0);
  }
}

TEST_CASE("an answer that lists a character of several tokens once is left out, counted and named") {
  auto native = lines_of("completion_f32.jsonl"), chat = lines_of("v1_chat_f32.jsonl");
  merge_second(native[1]["completion_probabilities"], native[1]["tokens_predicted"]);
  merge_second(chat[1]["choices"][0]["logprobs"]["content"], chat[1]["usage"]["completion_tokens"]);
  for (const auto& lines : {native, chat}) {
    const auto rows = rows_of(text_of(lines));
    CHECK(rows.sequences == 3);
    CHECK(rows.rows.size() == 24);
    CHECK(std::ranges::none_of(rows.rows, [](const EngineRow& row) { return row.sequence == 1; }));
    CHECK(rows.incomplete == 1);
    CHECK(rows.first_incomplete == "answers, line 2");
  }
  // The same characters without a token too many are whole.
  auto whole = lines_of("v1_chat_f32.jsonl");
  json unused = 0;
  merge_second(whole[1]["choices"][0]["logprobs"]["content"], unused);
  CHECK(rows_of(text_of(whole)).rows.size() == 36);
}

TEST_CASE("the count of a stream stands in its last event") {
  std::string stream = answers("v1_completions_stream_f32.sse");
  const std::string count = "\"completion_tokens\":8";
  const auto at = stream.find(count);
  REQUIRE(at != std::string::npos);
  stream.replace(at, count.size(), "\"completion_tokens\":9");
  const auto rows = rows_of(stream);
  CHECK(rows.sequences == 1);
  CHECK(rows.rows.empty());
  CHECK(rows.incomplete == 1);
}

TEST_CASE("tokens that an answer ends with need not be listed, and every other one must be") {
  const AnswerToken plain{"a", 1, -0.5, {}}, beyond{"ä", 2, -0.5, {}}, without_id{"ä", {}, -0.5, {}};
  const auto listed = [](std::vector<AnswerToken> tokens, std::optional<std::uint64_t> count, bool ended) {
    return lists_every_token(tokens, {count, ended, false});
  };
  CHECK(listed({plain, beyond}, 2, false));
  CHECK_FALSE(listed({plain, beyond}, 3, false));
  CHECK_FALSE(listed({plain, beyond}, 3, true));
  CHECK_FALSE(listed({plain}, 3, false));
  CHECK(listed({plain}, 3, true));
  CHECK(listed({without_id, without_id}, 3, true));  // the end token of an engine that lists one entry for each
  CHECK_FALSE(listed({without_id, without_id}, 4, true));
  CHECK_FALSE(listed({plain, beyond}, 1, true));
  CHECK(listed({plain}, {}, false));
  CHECK_FALSE(listed({plain, beyond}, {}, false));
  CHECK(listed({plain, without_id}, {}, false));
  CHECK(listed({}, 0, false));
  CHECK_FALSE(listed({}, 1, false));
  CHECK(lists_every_token({plain}, {7, false, true}));  // of several choices
}

TEST_CASE("what is broken in a stream is named with its line") {
  CHECK(refusal("data: {\n\n").find("answers, line 1") != std::string::npos);
  CHECK(refusal(": x\ndata: {}\ndata: 3\n").find("line 3: the event is no JSON object") != std::string::npos);
}

TEST_CASE("an answer without log-probabilities is refused with the shapes that are known") {
  const std::string models = answers("models_f32.json");
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"choices":[{"text":"a","logprobs":null}]})"),
        std::string(R"({"meta_info":{"id":"x"}})"), models}) {
    CAPTURE(text);
    const auto message = refusal(text);
    CHECK(message.find("choices[].logprobs.content") != std::string::npos);
    CHECK(message.find("ask the engine for log-probabilities") != std::string::npos);
  }
}

TEST_CASE("a shape is known by what the answer holds") {
  const std::pair<const char*, Format> shapes[] = {
      {R"({"choices":[{"logprobs":{"tokens":[]}}]})", Format::openai},
      {R"({"choices":[{},{"logprobs":{"content":[]}}]})", Format::chat},
      {R"({"prompt_logprobs":[],"choices":[{"logprobs":{"tokens":[]}}]})", Format::vllm},
      {R"({"choices":[{"prompt_logprobs":[]}]})", Format::vllm},
      {R"({"completion_probabilities":[]})", Format::llamacpp},
      {R"({"meta_info":{"input_token_logprobs":[]},"choices":[]})", Format::sglang}};
  for (const auto& [text, shape] : shapes) {
    CAPTURE(text);
    CHECK(shape_of(json::parse(text)) == shape);
  }
  for (const char* none : {"null", "[]", "3", "{}", R"({"choices":{}})", R"({"choices":[{"logprobs":[]}]})"})
    CHECK_FALSE(shape_of(json::parse(none)));
}

TEST_CASE("tokens are read from every shape with what each of them says") {
  const auto lists = tokens_of(
      R"({"choices":[{"logprobs":{"tokens":["a","b"],"token_logprobs":[null,-0.5],"text_offset":[0,1]}}]})");
  REQUIRE(lists.size() == 2);
  CHECK(std::isnan(lists[0].logprob));
  CHECK(lists[1].logprob == -0.5);
  CHECK(lists[1].offset == 1);
  CHECK_FALSE(lists[1].id);
  const auto content = tokens_of(
      R"({"choices":[{"logprobs":{"content":[{"id":7,"token":"�","bytes":[226,130],"logprob":-1.5}]}}]})");
  REQUIRE(content.size() == 1);
  CHECK(content[0].text == "\xE2\x82");
  CHECK(content[0].id == 7);
  const auto prompt = tokens_of(
      R"({"prompt_token_ids":[5,6],"prompt_logprobs":[null,{"6":{"logprob":-3.5,"decoded_token":"x"},"1":{"logprob":-0.1}}]})");
  REQUIRE(prompt.size() == 2);
  CHECK(std::isnan(prompt[0].logprob));
  CHECK(prompt[1].text == "x");
  CHECK(prompt[1].logprob == -3.5);
  const auto meta = tokens_of(
      R"({"meta_info":{"input_token_logprobs":[[null,5,"a"]],"output_token_logprobs":[[-0.75,8,null]]}})");
  REQUIRE(meta.size() == 2);
  CHECK(meta[0].text == "a");
  CHECK(meta[1].id == 8);
  CHECK(meta[1].logprob == -0.75);
}

TEST_CASE("every value put in another's place in an answer is refused or read") {
  const std::string texts[] = {
      R"({"choices":[{"logprobs":{"tokens":["a"],"token_logprobs":[-1],"text_offset":[0]}}]})",
      R"({"choices":[{"logprobs":{"content":[{"id":7,"token":"a","bytes":[97],"logprob":-1}]}}]})",
      R"({"choices":[{"prompt_token_ids":[6],"prompt_logprobs":[{"6":{"logprob":-3}}]}]})",
      R"({"meta_info":{"input_token_logprobs":[[-1,5,"a"]]}})",
      R"({"completion_probabilities":[{"id":3,"token":"x","logprob":-1}]})"};
  for (const std::string& text : texts) {
    for (const char* other : {"null", "[]", "{}", "1", "-1", "\"x\"", "[[[]]]", "true"}) {
      for (std::size_t at = 0; at < text.size(); ++at) {
        if (std::string_view("[{-\"").find(text[at]) == std::string_view::npos) continue;
        const auto changed = json::parse(text.substr(0, at) + other + text.substr(at + 1), nullptr, false);
        if (changed.is_discarded()) continue;
        const auto tokens = answer_tokens(changed);
        if (!tokens) CHECK_FALSE(tokens.error().message.empty());
      }
    }
  }
}
