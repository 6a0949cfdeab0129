#include "daemon/jobs/engines/golden.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/jobs/scripted_engine.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::ScriptedEngine;
using nlohmann::json;
using schema::ErrorCode;

namespace {

/// An engine that tells of itself what `told` has for a path, and has no other endpoints.
ScriptedEngine::Twist telling(std::map<std::string, net::Response> told) {
  return [told = std::move(told)](const net::Request& request, const json&) -> std::optional<net::Response> {
    const auto found = told.find(request.path);
    if (found != told.end()) return found->second;
    return ScriptedEngine::of(404, "");
  };
}

net::Response models(const std::vector<json>& data) {
  return ScriptedEngine::of(json{{"data", data}});
}

ScriptedEngine::Twist answering(net::Response response) {
  return
      [response = std::move(response)](const net::Request&, const json&) { return std::optional(response); };
}

GoldenEngine by_count(std::string url) {
  return {.base_url = std::move(url), .model = "m", .by = LogprobsBy::count};
}

}  // namespace

TEST_CASE("an engine is asked for log-probabilities in the way in which it was seen to give them") {
  EngineAbilities abilities;
  abilities.models = {"its-own"};
  abilities.logprobs_by = LogprobsBy::n_probs;
  abilities.chat_logprobs = true;
  auto engine = golden_engine("http://e", "m", abilities);
  CHECK(engine.model == "its-own");
  CHECK(engine.by == LogprobsBy::n_probs);
  CHECK_FALSE(engine.chat);

  abilities.models.clear();
  abilities.logprobs_by = LogprobsBy::none;
  engine = golden_engine("http://e", "m", abilities);
  CHECK(engine.model == "m");
  CHECK(engine.by == LogprobsBy::top_logprobs);
  CHECK(engine.chat);

  abilities.chat_logprobs = false;
  CHECK(golden_engine("http://e", "m", abilities).by == LogprobsBy::none);
}

TEST_CASE("an engine that gives log-probabilities in chats alone is asked a golden prompt as a message") {
  const json message{{"role", "assistant"}, {"content", "ab"}};
  const json content =
      json::array({{{"token", "a"}, {"logprob", -0.5}}, {{"token", "b"}, {"logprob", -0.25}}});
  const json answer{{"choices", json::array({{{"index", 0},
                                              {"finish_reason", "stop"},
                                              {"message", message},
                                              {"logprobs", {{"content", content}}}}})}};
  ScriptedEngine engine(answering(ScriptedEngine::of(answer)));
  auto chat = by_count(engine.url());
  chat.by = LogprobsBy::top_logprobs;
  chat.chat = true;
  const auto golden = ask_golden(chat, "say it", {});
  REQUIRE(golden);
  CHECK(golden->answer.tokens == std::vector<std::string>{"a", "b"});
  const auto asked = engine.asked();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].path == "/v1/chat/completions");
  const auto body = json::parse(asked[0].body);
  CHECK(body["messages"][0]["content"] == "say it");
  CHECK(body["logprobs"] == true);
  CHECK_FALSE(body.contains("prompt"));
}

TEST_CASE("a golden prompt is asked for greedily, and its tokens are counted as the engine counts them") {
  json answer = ScriptedEngine::choice("ab", {{"tokens", {"a", "b"}}, {"token_logprobs", {-0.5, nullptr}}});
  answer["usage"] = {{"total_tokens", 9}};
  ScriptedEngine engine(answering(ScriptedEngine::of(answer)));
  const auto golden = ask_golden(by_count(engine.url()), "say it", {});
  REQUIRE(golden);
  CHECK(golden->answer.tokens == std::vector<std::string>{"a", "b"});
  REQUIRE(golden->answer.logprobs.size() == 2);
  CHECK(golden->answer.logprobs[0] == -0.5);
  CHECK(std::isnan(golden->answer.logprobs[1]));
  CHECK(golden->tokens == 9);
  const auto asked = engine.asked();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].path == "/v1/completions");
  const auto body = json::parse(asked[0].body);
  CHECK(body["model"] == "m");
  CHECK(body["prompt"] == "say it");
  CHECK(body["temperature"] == 0);
  CHECK(body["max_tokens"] == kGoldenTokens);
  CHECK(body["logprobs"] == 1);
}

TEST_CASE("an engine that counts no tokens has them estimated from the text") {
  const ScriptedEngine engine;
  const auto golden = ask_golden(by_count(engine.url()), std::string(40, 'x'), {});
  REQUIRE(golden);
  CHECK(golden->tokens == 40 / 4 + 1 + 1);
}

TEST_CASE("an engine that does not answer a golden prompt as it should says so") {
  const std::pair<net::Response, ErrorCode> answers[] = {
      {ScriptedEngine::of(503, ""), ErrorCode::unavailable},
      {ScriptedEngine::of(400, "{}"), ErrorCode::unavailable},
      {ScriptedEngine::of(200, "<html>"), ErrorCode::invalid_document},
      {ScriptedEngine::of(200, R"({"choices":[{"text":"a","logprobs":null}]})"), ErrorCode::invalid_document},
  };
  for (const auto& [answer, code] : answers) {
    CAPTURE(answer.body);
    const ScriptedEngine engine(answering(answer));
    const auto golden = ask_golden(by_count(engine.url()), "say it", {});
    REQUIRE_FALSE(golden);
    CHECK(golden.error().code == code);
  }
  CHECK(ask_golden(by_count("http://192.0.2.1:80"), "say it", {}).error().code == ErrorCode::forbidden);
}

TEST_CASE("an identity is what the engine tells of the model and of itself, without lists and what changes with each start") {
  const std::string long_flags(1'000, 'f');
  const ScriptedEngine engine(telling({
      {"/v1/models",
       models({json{{"id", "other"}, {"kernel", "x"}},
               json{{"id", "m"}, {"created", 17}, {"kernel", "k"}, {"permission", json::array()}}})},
      {"/version", ScriptedEngine::of(json{{"version", "0.8.1"}})},
      {"/props", ScriptedEngine::of(json{{"media_marker", "<__media_2mQsGCZ1__>"}, {"model_ftype", "Q8_0"}})},
      {"/get_server_info",
       ScriptedEngine::of(json{{"flags", long_flags}, {"tp", 2}, {"fast", true}, {"states", {{"a", 1}}}})},
  }));
  const auto identity = read_identity(engine.url(), "m", {});
  REQUIRE(identity);
  const auto digest = identity->at("server_info.flags");
  CHECK(digest.starts_with("sha256:"));
  CHECK(*identity == stages::Identity{{"models.id", "m"},
                                      {"models.kernel", "k"},
                                      {"version.version", "0.8.1"},
                                      {"props.model_ftype", "Q8_0"},
                                      {"server_info.flags", digest},
                                      {"server_info.tp", "2"},
                                      {"server_info.fast", "true"}});
}

TEST_CASE(
    "an engine that shows only its models has that as its identity, and a page for people tells nothing") {
  const ScriptedEngine engine(telling({
      {"/v1/models", models({json{{"id", "m"}}})},
      {"/version", ScriptedEngine::of(403, "")},
      {"/props", ScriptedEngine::of(200, "<html>")},
      {"/get_model_info", ScriptedEngine::of(200, "[1]")},
  }));
  const auto identity = read_identity(engine.url(), "m", {});
  REQUIRE(identity);
  CHECK(*identity == stages::Identity{{"models.id", "m"}});
}

TEST_CASE("an identity is read as a whole or not at all") {
  for (const char* path : {"/v1/models", "/version", "/get_server_info"}) {
    CAPTURE(path);
    std::map<std::string, net::Response> told{{"/v1/models", models({json{{"id", "m"}}})}};
    told[path] = ScriptedEngine::of(500, "");
    const ScriptedEngine engine(telling(std::move(told)));
    const auto identity = read_identity(engine.url(), "m", {});
    REQUIRE_FALSE(identity);
    CHECK(identity.error().code == ErrorCode::unavailable);
    CHECK(identity.error().message.find(path) != std::string::npos);
  }
}

TEST_CASE("prompts are those of the corpus's lines, drawn by the seed") {
  std::string corpus;
  for (int i = 0; i < 200; ++i)
    corpus += json{{"sequence", i}, {"text", "text " + std::to_string(i)}}.dump() + "\n";
  const auto chosen = choose_prompts(corpus, 16, 7);
  CHECK(chosen.size() == 16);
  CHECK(std::set<std::string>(chosen.begin(), chosen.end()).size() == 16);
  CHECK(choose_prompts(corpus, 16, 7) == chosen);
  CHECK(choose_prompts(corpus, 16, 8) != chosen);
  CHECK(choose_prompts(corpus, 500, 7).size() == 200);
  CHECK(choose_prompts(corpus, 0, 7).empty());
}

TEST_CASE("each line of a corpus is drawn as often as the others") {
  std::string corpus;
  for (int i = 0; i < 10; ++i) corpus += json{{"text", std::to_string(i)}}.dump() + "\n";
  std::map<std::string, int> drawn;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    for (const auto& prompt : choose_prompts(corpus, 3, seed)) ++drawn[prompt];
  }
  // Expected 600 each with a standard deviation of about 20.
  CHECK(drawn.size() == 10);
  for (const auto& [prompt, times] : drawn) {
    CAPTURE(prompt);
    CHECK(times > 480);
    CHECK(times < 720);
  }
}

TEST_CASE("lines without a text of a usable length are left out, and so is a line that is cut off") {
  const std::string longest(kMaxGoldenPromptBytes, 'x');
  std::string corpus;
  for (const std::string& line :
       {json{{"prompt", "first"}, {"text", "not this"}}.dump(), std::string("no JSON"), std::string("[1]"),
        std::string(), json{{"text", 5}}.dump(), json{{"text", ""}}.dump(), json{{"tokens", {1, 2}}}.dump(),
        json{{"text", longest}}.dump(), json{{"text", longest + "x"}}.dump()})
    corpus += line + "\n";
  corpus += json{{"text", "cut off"}}.dump();
  const auto chosen = choose_prompts(corpus, 9, 1);
  CHECK(chosen == std::vector<std::string>{"first", longest});
}
