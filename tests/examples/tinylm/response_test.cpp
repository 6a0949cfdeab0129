#include "examples/tinylm/src/serving/response.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace tinylm;

namespace {

std::vector<TokenResult> tokens_of(const std::string& text) {
  std::vector<TokenResult> tokens;
  for (const char c : text) tokens.push_back({static_cast<unsigned char>(c), -1.0, true, {}});
  return tokens;
}

// Text of a stream that is fed one token at a time.
std::string streamed_text(const std::string& text, const CompletionRequest& request) {
  const Generation generation(request, 1);
  ChunkWriter writer({"id", "tinylm", "tinylm-f32", 0}, generation);
  const auto all = tokens_of(text);
  std::string stream, joined;
  for (std::size_t n = 1; n <= all.size(); ++n)
    stream += writer.advance(std::span(all).first(n), n == all.size() ? Finish::stop : Finish::none);
  CHECK(stream.ends_with("data: [DONE]\n\n"));
  for (std::size_t at = stream.find("data: {"); at != std::string::npos;
       at = stream.find("data: {", at + 1)) {
    const std::string line = stream.substr(at + 6, stream.find('\n', at) - at - 6);
    joined += nlohmann::json::parse(line)["choices"][0]["text"].get<std::string>();
  }
  return joined;
}

}  // namespace

TEST_CASE("the earliest stop string cuts the tokens") {
  CHECK(tokens_before_stop(tokens_of("one two three"), {"three", "two"}) == 4);
  CHECK(tokens_before_stop(tokens_of("one"), {"x"}) == 3);
}

TEST_CASE("a tail that may become a stop string is held back") {
  CHECK(tokens_safe_to_send(tokens_of("abc"), {"bcd"}) == 1);
  CHECK(tokens_safe_to_send(tokens_of("abc"), {"xyz"}) == 3);
}

TEST_CASE("a stream joins to the same text as the whole answer") {
  const CompletionRequest request{.prompt = {256, 'p'}, .stop = {"END"}};
  CHECK(streamed_text("für → EN ENDE", request) == "für → EN ");
  CHECK(streamed_text("cut \xC3", {.prompt = {256}}) == "cut \uFFFD");
}

TEST_CASE("an answer carries the prompt's and its own token ids") {
  const Generation generation({.prompt = {256, 'p'}, .logprobs = 0}, 1);
  const auto body = nlohmann::json::parse(
      completion_body({"id", "tinylm", "tinylm-f32", 0}, generation, tokens_of("\xC3\xBC!"), Finish::length));
  const auto& choice = body["choices"][0];
  CHECK(choice["text"] == "ü!");
  CHECK(choice["token_ids"] == std::vector<int>{0xC3, 0xBC, '!'});
  CHECK(choice["prompt_token_ids"] == std::vector<int>{256, 'p'});
  CHECK(choice["logprobs"]["text_offset"] == std::vector<int>{0, 1, 1});
  CHECK(body["usage"]["total_tokens"] == 5);
}
