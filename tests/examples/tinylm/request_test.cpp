#include "examples/tinylm/src/serving/request.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace tinylm;

namespace {

auto parsed(const std::string& body) {
  return parse_completion(body, "tinylm", 512);
}

}  // namespace

TEST_CASE("a prompt is a string, one string in an array, or token ids") {
  CHECK(parsed(R"({"prompt":"ab"})")->prompt == std::vector<std::int32_t>{256, 97, 98});
  CHECK(parsed(R"({"prompt":["ab"]})")->prompt == std::vector<std::int32_t>{256, 97, 98});
  CHECK(parsed(R"({"prompt":[256,97,98]})")->prompt == std::vector<std::int32_t>{256, 97, 98});
  CHECK(parsed(R"({"prompt":""})")->prompt == std::vector<std::int32_t>{256});
}

TEST_CASE("absent and null fields take the defaults of the completions API") {
  const auto request =
      parsed(R"({"prompt":"a","max_tokens":null,"temperature":null,"stop":null,"logprobs":null})");
  REQUIRE(request.has_value());
  CHECK(request->max_tokens == 16);
  CHECK(request->temperature == 1.0);
  CHECK_FALSE(request->stream);
  CHECK_FALSE(request->logprobs.has_value());
}

TEST_CASE("the context is the limit of prompt and completion together") {
  const std::string prompt(500, 'a');  // 501 tokens with the one that begins a text
  CHECK(parsed(R"({"prompt":")" + prompt + R"(","max_tokens":11})").has_value());
  const auto refused = parsed(R"({"prompt":")" + prompt + R"(","max_tokens":12})");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == "context_length_exceeded");
}

TEST_CASE("what cannot be honoured is refused with the field's name") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "prompt"},
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[257]})", "prompt"},
      {R"({"prompt":[-1]})", "prompt"},
      {R"({"prompt":["a","b"]})", "prompt"},
      {R"({"prompt":"a","max_tokens":-1})", "max_tokens"},
      {R"({"prompt":"a","max_tokens":1.5})", "max_tokens"},
      {R"({"prompt":"a","max_tokens":99999999999999999999})", "max_tokens"},
      {R"({"prompt":"a","temperature":3})", "temperature"},
      {R"({"prompt":"a","temperature":"hot"})", "temperature"},
      {R"({"prompt":"a","logprobs":21})", "logprobs"},
      {R"({"prompt":"a","stream":"yes"})", "stream"},
      {R"({"prompt":"a","stream_options":3})", "stream_options"},
      {R"({"prompt":"a","stop":""})", "stop"},
      {R"({"prompt":"a","stop":["1","2","3","4","5"]})", "stop"},
      {R"({"prompt":"a","seed":1.5})", "seed"},
      {R"({"prompt":"a","n":2})", "n must"},
      {R"({"prompt":"a","top_p":0.5})", "top_p"},
      {R"({"prompt":"a","suffix":"b"})", "suffix"},
      {R"([])", "object"},
  };
  for (const auto& [body, name] : cases) {
    CAPTURE(body);
    const auto refused = parsed(body);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().status == 400);
    CHECK(refused.error().message.find(name) != std::string::npos);
  }
}

TEST_CASE("another model's name is not found") {
  CHECK(parsed(R"({"prompt":"a","model":"gpt"})").error().status == 404);
  CHECK(parsed(R"({"prompt":"a","model":"tinylm"})").has_value());
}

TEST_CASE("a body cut at any byte is refused") {
  const std::string body = R"({"prompt":"für","max_tokens":3,"stop":["x"],"temperature":0.5,"seed":-4})";
  CHECK(parsed(body).has_value());
  for (std::size_t n = 0; n < body.size(); ++n) {
    CAPTURE(n);
    const auto refused = parsed(body.substr(0, n));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == "invalid_json");
  }
}
