#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "daemon/jobs/engines/engine_client.hpp"
#include "tests/daemon/jobs/scripted_engine.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::ScriptedEngine;
using nlohmann::json;
using schema::ErrorCode;

namespace {

/// What a request to an engine is for.
std::string question_of(const net::Request& request, const json& body) {
  if (request.path == "/health") return "health";
  if (request.path == "/v1/models") return "models";
  if (body.value("stream", false)) return "stream";
  if (request.path == "/v1/chat/completions") return body.contains("logprobs") ? "chat_logprobs" : "chat";
  if (request.path == "/generate" || body.contains("prompt_logprobs") || body.value("echo", false))
    return "scoring";
  if (body["prompt"].is_array()) return "token_ids";
  return body.contains("logprobs") || body.contains("n_probs") ? "logprobs" : "completions";
}

/// Answers one question in its own way, and the others as an engine should.
ScriptedEngine::Twist only(const std::string& question, net::Response response) {
  return [=](const net::Request& request, const json& body) -> std::optional<net::Response> {
    const auto asked = question_of(request, body);
    const bool generation = question == "generation" && (asked == "completions" || asked == "chat");
    if (asked != question && !generation) return std::nullopt;
    return response;
  };
}

schema::Result<EngineAbilities> probed(const std::string& question, net::Response response) {
  const ScriptedEngine engine(only(question, std::move(response)));
  return probe_engine(engine.url(), "", {});
}

std::string echo(const json& text, const json& tokens, const json& values) {
  return ScriptedEngine::choice(text, {{"tokens", tokens}, {"token_logprobs", values}}).dump();
}

std::map<std::string, bool> abilities(const EngineAbilities& found) {
  return {{"health", found.health},
          {"completions", found.completions},
          {"logprobs", found.logprobs},
          {"chat", found.chat},
          {"chat_logprobs", found.chat_logprobs},
          {"scoring", found.scoring != Scoring::none},
          {"stream", found.stream},
          {"token_ids", found.token_ids}};
}

bool noted(const EngineAbilities& found, const std::string& words) {
  return std::ranges::any_of(found.notes,
                             [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("an engine that can do everything is seen to, and nothing is noted") {
  ScriptedEngine engine;
  const auto found = probe_engine(engine.url(), "", {});
  REQUIRE(found);
  CHECK(found->models == std::vector<std::string>{"m"});
  CHECK((found->health && found->completions && found->logprobs));
  CHECK((found->chat && found->chat_logprobs && found->stream && found->token_ids));
  CHECK(found->scoring == Scoring::echo);
  CHECK(found->logprobs_shape == "openai");
  CHECK(found->notes.empty());
  for (const net::Request& request : engine.asked()) {
    CHECK_FALSE(request.header("Via").has_value());
    if (request.path == "/v1/completions") CHECK(json::parse(request.body)["model"] == "m");
  }
}

namespace {

/// What an engine answers in place of what was asked of it, and what the probe says of that.
struct Lack {
  const char* question;
  net::Response answer;
  const char* ability;
  const char* note;
};

std::vector<Lack> lacks() {
  const auto of = [](int status, std::string body) { return ScriptedEngine::of(status, std::move(body)); };
  const std::string prompt = "The answer is";
  return {
      {"health", of(503, "busy"), "health", "GET /health answered 503"},
      {"health", of(404, ""), "health", "GET /health answered 404"},
      {"completions", of(404, ""), "completions", "POST /v1/completions answered 404"},
      {"chat", of(404, ""), "chat", "POST /v1/chat/completions answered 404"},
      {"chat", of(200, R"({"choices":[{"text":"a"}]})"), "chat", "has no choices with a message"},
      {"chat_logprobs", of(200, R"({"choices":[{"message":{"content":"a"},"logprobs":null}]})"),
       "chat_logprobs",
       "chat completions give no log-probabilities: the engine's answer cannot be read: it holds no "},
      {"logprobs", of(400, "{}"), "logprobs",
       "completions give no log-probabilities: the request was refused with 400 ({\"logprobs\":1}); "
       "the request was refused with 400 ({\"logprobs\":true,\"top_logprobs\":1}); "
       "the request was refused with 400 ({\"n_probs\":1})"},
      {"logprobs", of(200, "<html>"), "logprobs", "completions give no log-probabilities: "},
      {"logprobs", of(200, R"({"choices":[{"text":"a","logprobs":null}]})"), "logprobs",
       "it holds no log-probabilities; known are choices[].logprobs.tokens"},
      {"logprobs", of(200, echo("a", {"a"}, {nullptr})), "logprobs",
       "the log-probability of a generated token is unknown"},
      {"logprobs", of(200, echo("", json::array(), json::array())), "logprobs",
       "the log-probability of a generated token is unknown"},
      {"scoring", of(422, ""), "scoring",
       "given tokens cannot be scored: it was refused with 422 (echo); it was refused with 422 "
       "(prompt_logprobs); "
       "it was refused with 422 (generate)"},
      {"scoring", of(200, "[1]"), "scoring", "it holds no log-probabilities"},
      {"scoring", of(200, echo("a generated text", {"a", "b"}, {nullptr, -1})), "scoring",
       "the echoed text is not the prompt that was sent (echo); the prompt's tokens are not in the answer"},
      {"scoring", of(200, echo(nullptr, {"a", "b"}, {nullptr, -1})), "scoring",
       "the echoed text is not the prompt that was sent"},
      {"scoring", of(200, echo({"The answer is"}, {"a", "b"}, {nullptr, -1})), "scoring",
       "the echoed text is not the prompt that was sent"},
      {"scoring", of(200, echo(prompt, {"all"}, {-1})), "scoring",
       "tokens of the prompt have no log-probabilities"},
      {"scoring", of(200, echo(prompt, {"a", "b", "c"}, {nullptr, -9999.0, -1})), "scoring",
       "tokens of the prompt have no log-probabilities"},
      {"stream", of(500, ""), "stream", "a stream did not end with [DONE]"},
      {"stream", of(200, "data: {}\n\n"), "stream", "a stream did not end with [DONE]"},
      {"stream", of(200, "{\"choices\":[]}"), "stream", "a stream did not end with [DONE]"},
      {"token_ids", of(400, ""), "token_ids", "prompts given as token ids were refused"},
  };
}

}  // namespace

TEST_CASE("an ability that is missing is noted with what was seen, and hides no other") {
  for (const Lack& lack : lacks()) {
    CAPTURE(lack.question);
    CAPTURE(lack.answer.body);
    const auto found = probed(lack.question, lack.answer);
    REQUIRE(found);
    const auto seen = abilities(*found);
    CAPTURE(found->notes.at(0));
    CHECK(found->notes.size() == 1);
    CHECK(noted(*found, lack.note));
    for (const auto& [name, can] : seen) {
      CAPTURE(name);
      const bool follows =
          lack.question == std::string("completions") || lack.question == std::string("chat");
      if (follows &&
          (name == "logprobs" || name == "chat_logprobs" || name == "token_ids" || name == "scoring"))
        continue;
      CHECK(can == (name != lack.ability));
    }
  }
}

TEST_CASE("each known way to give log-probabilities and to score is found") {
  const json content{{"content", json::array({json{{"id", 3}, {"token", "a"}, {"logprob", -0.5}}})}};
  const ScriptedEngine llamacpp(
      [&](const net::Request& request, const json& body) -> std::optional<net::Response> {
        if (question_of(request, body) == "scoring")
          return ScriptedEngine::of(ScriptedEngine::choice("a", content));
        if (question_of(request, body) == "logprobs")
          return ScriptedEngine::of(ScriptedEngine::choice("a", content));
        return std::nullopt;
      });
  auto found = probe_engine(llamacpp.url(), "", {});
  REQUIRE(found);
  CHECK(found->logprobs);
  CHECK(found->logprobs_shape == "chat");
  CHECK(found->scoring == Scoring::none);
  CHECK(found->notes.size() == 1);

  const json scored{
      {"choices", json::array({json{{"text", "x"},
                                    {"prompt_token_ids", {5, 6}},
                                    {"prompt_logprobs", {nullptr, json{{"6", {{"logprob", -3.5}}}}}}}})}};
  ScriptedEngine vllm([&](const net::Request&, const json& body) -> std::optional<net::Response> {
    if (body.contains("prompt_logprobs")) return ScriptedEngine::of(scored);
    if (body.value("echo", false)) return ScriptedEngine::of(400, "");
    return std::nullopt;
  });
  found = probe_engine(vllm.url(), "", {});
  REQUIRE(found);
  CHECK(found->scoring == Scoring::prompt_logprobs);
  CHECK(found->notes.empty());
  auto client = EngineClient::connect(vllm.url(), "m", found->scoring, {});
  REQUIRE(client);
  const auto tokens = client->score({5, 6});
  REQUIRE(tokens);
  CHECK(tokens->ids == std::vector<std::int64_t>{5, 6});
  CHECK(tokens->logprobs[1] == -3.5);

  ScriptedEngine sglang([&](const net::Request& request, const json& body) -> std::optional<net::Response> {
    if (request.path == "/generate")
      return ScriptedEngine::of(
          200,
          R"({"text":"","meta_info":{"input_token_logprobs":[[null,5,"a"],[-0.5,6,"b"]],"output_token_logprobs":[]}})");
    if (body.contains("prompt_logprobs") || body.value("echo", false)) return ScriptedEngine::of(400, "");
    return std::nullopt;
  });
  found = probe_engine(sglang.url(), "", {});
  REQUIRE(found);
  CHECK(found->scoring == Scoring::generate);
  auto other = EngineClient::connect(sglang.url(), "m", found->scoring, {});
  REQUIRE(other);
  CHECK(other->score("ab")->tokens == std::vector<std::string>{"a", "b"});
  CHECK(json::parse(sglang.asked().back().body)["text"] == "ab");
  CHECK(other->score({5, 6})->logprobs[1] == -0.5);
  CHECK(json::parse(sglang.asked().back().body)["input_ids"] == json({5, 6}));
}

TEST_CASE("an engine that only chats is one, and an engine that does neither is none") {
  const ScriptedEngine engine([](const net::Request& request, const json&) -> std::optional<net::Response> {
    if (request.path == "/v1/completions") return ScriptedEngine::of(404, "");
    return std::nullopt;
  });
  const auto found = probe_engine(engine.url(), "", {});
  REQUIRE(found);
  CHECK_FALSE(found->completions);
  CHECK(found->chat_logprobs);
  CHECK(found->stream);
  CHECK(found->logprobs_shape == "chat");
}

TEST_CASE("what is no engine is refused with what it answered and where") {
  const std::pair<const char*, net::Response> answers[] = {
      {"models", ScriptedEngine::of(200, "<html>a web page</html>")},
      {"models", ScriptedEngine::of(500, R"({"data":[]})")},
      {"models", ScriptedEngine::of(200, R"({"data":{}})")},
      {"models", ScriptedEngine::of(200, R"([{"id":"m"}])")},
      {"models", ScriptedEngine::of(200, std::string(2u << 20, ' ') + R"({"data":[]})")},
      {"models",
       ScriptedEngine::of(200, R"({"data":[)" + std::string(40, '[') + std::string(40, ']') + "]}")},
      {"generation", ScriptedEngine::of(404, "")},
      {"generation", ScriptedEngine::of(200, "{")},
      {"generation", ScriptedEngine::of(200, R"({"choices":[]})")},
      {"generation", ScriptedEngine::of(200, R"({"choices":["text"]})")},
      {"generation", ScriptedEngine::of(200, R"({"choices":{"0":{"text":"a"}}})")},
  };
  for (const auto& [question, answer] : answers) {
    CAPTURE(question);
    CAPTURE(answer.body.substr(0, 60));
    const ScriptedEngine engine(only(question, answer));
    const auto found = probe_engine(engine.url(), "", {});
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::unavailable);
    const std::string said = found.error().describe();
    CAPTURE(said);
    CHECK(said.find(engine.url()) != std::string::npos);
    CHECK(said.find("OpenAI-compatible engine") != std::string::npos);
    if (answer.status != 200) CHECK(said.find(std::to_string(answer.status)) != std::string::npos);
  }
}

TEST_CASE(
    "a list of models is taken with measure, and what an entry states only of the model that is asked for") {
  json data = json::array({7, nullptr, json::object(), json{{"id", 3}}, json{{"id", std::string(257, 'x')}}});
  for (int i = 0; i < 150; ++i)
    data.push_back({{"id", "m" + std::to_string(i)},
                    {"kernel", "k" + std::to_string(i)},
                    {"checkpoint_digest", std::string(1'000, 'a') + std::to_string(i)}});
  const ScriptedEngine engine(only("models", ScriptedEngine::of(json{{"data", data}})));
  const auto any = probe_engine(engine.url(), "", {});
  REQUIRE(any);
  CHECK(any->models.size() == 100);
  CHECK(any->models.front() == "m0");
  CHECK(any->stated_kernel == "k0");
  CHECK(any->stated_checkpoint == std::string(256, 'a'));
  const auto one = probe_engine(engine.url(), "m7", {});
  CHECK(one->stated_kernel == "k7");
  const auto none = probe_engine(engine.url(), "other", {});
  CHECK(none->stated_kernel.empty());
  CHECK(none->stated_checkpoint.empty());
  const auto odd = probed(
      "models", ScriptedEngine::of(200, R"({"data":[{"id":"m","kernel":["k"],"checkpoint_digest":5}]})"));
  REQUIRE(odd);
  CHECK(odd->stated_kernel.empty());
  CHECK(odd->stated_checkpoint.empty());
}

TEST_CASE("an engine that leads back to this daemon's router is refused wherever the circle shows") {
  for (const char* question : {"health", "models", "completions", "chat"}) {
    CAPTURE(question);
    ScriptedEngine engine(only(question, ScriptedEngine::of(508, "")));
    const auto found = probe_engine(engine.url(), "m", {}, "driftgate-7f");
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::invalid_argument);
    CHECK(found.error().where == "/url");
    CHECK(found.error().message.find("register the engine that stands behind it") != std::string::npos);
    for (const net::Request& request : engine.asked()) CHECK(request.header("Via") == "1.1 driftgate-7f");
  }
}

TEST_CASE("a URL that can not be an engine's is refused before anything is sent") {
  const std::pair<const char*, ErrorCode> urls[] = {
      {"", ErrorCode::invalid_argument},
      {"127.0.0.1:8000", ErrorCode::invalid_argument},
      {"ftp://127.0.0.1:8000", ErrorCode::invalid_argument},
      {"http://user:secret@127.0.0.1:8000", ErrorCode::invalid_argument},
      {"http://127.0.0.1:0", ErrorCode::invalid_argument},
      {"http://127.0.0.1:65536", ErrorCode::invalid_argument},
      {"http://127.0.0.1:80 80", ErrorCode::invalid_argument},
      {"http://192.0.2.1:80", ErrorCode::forbidden},
      {"http://169.254.169.254/latest/meta-data", ErrorCode::forbidden},
  };
  for (const auto& [url, code] : urls) {
    CAPTURE(url);
    const auto found = probe_engine(url, "", {});
    REQUIRE_FALSE(found);
    CHECK(found.error().code == code);
    CHECK(EngineClient::connect(url, "m", Scoring::echo, {}).error().code == code);
  }
  const auto gone = probe_engine("http://127.0.0.1:1", "", {});
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == ErrorCode::unavailable);
  CHECK(gone.error().describe().find("the engine at http://127.0.0.1:1 cannot be reached") == 0);
}

TEST_CASE("what does not speak HTTP is an error and no ability") {
  for (const char* bytes :
       {"", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ncut"}) {
    CAPTURE(bytes);
    const net::test::CannedServer peer(bytes);
    CHECK_FALSE(probe_engine("http://127.0.0.1:" + std::to_string(peer.port()), "", {}));
  }
}

TEST_CASE("abilities read back as they were stored, and damaged ones are corrupt") {
  EngineAbilities abilities;
  abilities.models = {"a", "ä"};
  abilities.stated_checkpoint = "sha256:c";
  abilities.stated_kernel = "k";
  abilities.completions = abilities.stream = true;
  abilities.notes = {"no log-probabilities"};
  const auto again = abilities_from_json(to_json(abilities));
  REQUIRE(again);
  CHECK(to_json(*again) == to_json(abilities));
  const json whole = json::parse(to_json(abilities));
  for (const auto& [name, value] : whole.items()) {
    CAPTURE(name);
    json damaged = whole;
    damaged.erase(name);
    CHECK(abilities_from_json(damaged.dump()).error().code == ErrorCode::corrupt);
    damaged[name] = json{{"odd", 1}};
    const auto odd = abilities_from_json(damaged.dump());
    REQUIRE_FALSE(odd);
    CHECK(odd.error().message.find("an engine's stored abilities cannot be read") == 0);
  }
  CHECK_FALSE(abilities_from_json("{"));
}

TEST_CASE("a request for scores that is refused, or of other tokens than were sent, says by which engine") {
  const ScriptedEngine busy(only("scoring", ScriptedEngine::of(429, "")));
  auto client = EngineClient::connect(busy.url(), "m", Scoring::echo, {});
  REQUIRE(client);
  const auto refused = client->score("a text");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message == "the engine " + busy.url() + " answered 429 to a request for scores");
  ScriptedEngine engine;
  auto other = EngineClient::connect(engine.url(), "m", Scoring::echo, {});
  REQUIRE(other);
  CHECK(other->score({1, 2, 3})->tokens.size() == 3);
  CHECK(json::parse(engine.asked().back().body)["prompt"] == json({1, 2, 3}));
  CHECK(json::parse(engine.asked().back().body)["max_tokens"] == 0);
  const ScriptedEngine merging(
      [](const net::Request&, const json&) { return ScriptedEngine::of(200, echo("xx", {"xx"}, {-1})); });
  auto third = EngineClient::connect(merging.url(), "m", Scoring::echo, {});
  const auto fewer = third->score({1, 2});
  REQUIRE_FALSE(fewer);
  CHECK(fewer.error().code == ErrorCode::invalid_document);
  CHECK(fewer.error().message.find("scored 1 tokens where 2 were sent") != std::string::npos);
  CHECK(third->score("xx"));
}

TEST_CASE("hostile scores are refused by the place of the fault or taken as unknown") {
  const std::pair<std::string, const char*> refused[] = {
      {R"({"choices":[3]})", ""},
      {R"({"choices":[{"logprobs":[]}]})", ""},
      {R"({"choices":[{"logprobs":{"tokens":["a"]}}]})", "/choices/0/logprobs"},
      {R"({"choices":[{"logprobs":{"tokens":"a","token_logprobs":[-1]}}]})", "/choices/0/logprobs"},
      {R"({"choices":[{"logprobs":{"tokens":["a"],"token_logprobs":[-1,-2]}}]})", "/choices/0/logprobs"},
      {R"({"choices":[{"logprobs":{"tokens":["a",null],"token_logprobs":[-1,-2]}}]})",
       "/choices/0/logprobs/tokens/1"},
      {R"({"choices":[{"logprobs":{"tokens":["a"],"token_logprobs":[1e999]}}]})", "line 1"},
  };
  for (const auto& [body, where] : refused) {
    CAPTURE(body);
    const auto scored = parse_logprobs(body);
    REQUIRE_FALSE(scored);
    CHECK(scored.error().code == ErrorCode::invalid_document);
    CHECK(scored.error().where.starts_with(where));
  }
  CHECK(parse_logprobs(std::string((16u << 20) + 1, ' ')).error().code == ErrorCode::limit_exceeded);
  const auto odd =
      parse_logprobs(echo("abcde", {"a", "b", "c", "d", "e"}, {"-1", true, json::array(), -9999.5, -9998.5}));
  REQUIRE(odd);
  for (std::size_t i = 0; i < 4; ++i) CHECK(odd->logprobs[i] != odd->logprobs[i]);
  CHECK(odd->logprobs[4] == -9998.5);
  // Offsets of another number are no offsets, nor are some that are no integers.
  CHECK(parse_logprobs(
            R"({"choices":[{"logprobs":{"tokens":["a"],"token_logprobs":[-1],"text_offset":[0,1]}}]})")
            ->text_offsets.empty());
  CHECK(parse_logprobs(
            R"({"choices":[{"logprobs":{"tokens":["a"],"token_logprobs":[-1],"text_offset":["0"]}}]})")
            ->text_offsets.empty());
}
