#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/jobs/engine_client.hpp"
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
  if (body["prompt"].is_array()) return "token_ids";
  if (body.value("echo", false)) return "rescoring";
  return body.contains("logprobs") ? "logprobs" : "completions";
}

/// Answers one question in its own way, and the others as an engine should.
ScriptedEngine::Twist only(const std::string& question, net::Response response) {
  return [=](const net::Request& request, const json& body) -> std::optional<net::Response> {
    if (question_of(request, body) != question) return std::nullopt;
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
  CHECK((found->echo_rescoring && found->stream && found->token_ids));
  CHECK(found->notes.empty());
  for (const net::Request& request : engine.asked()) {
    CHECK_FALSE(request.header("Via").has_value());
    if (request.path == "/v1/completions") CHECK(json::parse(request.body)["model"] == "m");
  }
}

TEST_CASE("an ability that is missing is noted with what was seen, and hides no other") {
  const auto of = [](int status, std::string body) { return ScriptedEngine::of(status, std::move(body)); };
  const std::string prompt = "The answer is";
  struct Lack {
    const char* question;
    net::Response answer;
    bool EngineAbilities::*ability;
    const char* note;
  };
  const Lack lacks[] = {
      {"health", of(503, "busy"), &EngineAbilities::health, "GET /health answered 503"},
      {"health", of(404, ""), &EngineAbilities::health, "GET /health answered 404"},
      {"logprobs", of(400, "{}"), &EngineAbilities::logprobs, "a completion with logprobs was refused"},
      {"logprobs", of(200, "<html>"), &EngineAbilities::logprobs, "no log-probabilities: "},
      {"logprobs", of(200, R"({"choices":[{"text":"a","logprobs":null}]})"), &EngineAbilities::logprobs,
       "it holds no log-probabilities; known are "},
      {"logprobs", of(200, echo("a", {"a"}, {nullptr})), &EngineAbilities::logprobs,
       "the log-probability of a generated token is unknown"},
      {"logprobs", of(200, echo("", json::array(), json::array())), &EngineAbilities::logprobs,
       "the log-probability of a generated token is unknown"},
      {"rescoring", of(422, ""), &EngineAbilities::echo_rescoring, "echo with max_tokens 0 was refused"},
      {"rescoring", of(200, "[1]"), &EngineAbilities::echo_rescoring, "it holds no log-probabilities"},
      {"rescoring", of(200, echo("a generated text", {"a", "b"}, {nullptr, -1})),
       &EngineAbilities::echo_rescoring, "the echoed text is not the prompt that was sent"},
      {"rescoring", of(200, echo(nullptr, {"a", "b"}, {nullptr, -1})), &EngineAbilities::echo_rescoring,
       "the echoed text is not the prompt that was sent"},
      {"rescoring", of(200, echo({"The answer is"}, {"a", "b"}, {nullptr, -1})),
       &EngineAbilities::echo_rescoring, "the echoed text is not the prompt that was sent"},
      {"rescoring", of(200, echo(prompt, {"all"}, {-1})), &EngineAbilities::echo_rescoring,
       "echoed tokens have no log-probabilities"},
      {"rescoring", of(200, echo(prompt, {"a", "b", "c"}, {nullptr, -9999.0, -1})),
       &EngineAbilities::echo_rescoring, "echoed tokens have no log-probabilities"},
      {"stream", of(500, ""), &EngineAbilities::stream, "a stream did not end with [DONE]"},
      {"stream", of(200, "data: {}\n\n"), &EngineAbilities::stream, "a stream did not end with [DONE]"},
      {"stream", of(200, "{\"choices\":[]}"), &EngineAbilities::stream, "a stream did not end with [DONE]"},
      {"token_ids", of(400, ""), &EngineAbilities::token_ids, "prompts given as token ids were refused"},
  };
  for (const Lack& lack : lacks) {
    CAPTURE(lack.question);
    CAPTURE(lack.answer.body);
    const auto found = probed(lack.question, lack.answer);
    REQUIRE(found);
    CHECK_FALSE((*found).*lack.ability);
    CAPTURE(found->notes.at(0));
    CHECK(found->notes.size() == 1);
    CHECK(noted(*found, lack.note));
    for (const auto other :
         {&EngineAbilities::health, &EngineAbilities::completions, &EngineAbilities::logprobs,
          &EngineAbilities::echo_rescoring, &EngineAbilities::stream, &EngineAbilities::token_ids})
      CHECK(((*found).*other || other == lack.ability));
  }
}

TEST_CASE("what is no engine is refused with what it answered and where") {
  const std::pair<const char*, net::Response> answers[] = {
      {"models", ScriptedEngine::of(200, "<html>a web page</html>")},
      {"models", ScriptedEngine::of(401, R"({"data":[]})")},
      {"models", ScriptedEngine::of(200, R"({"data":{}})")},
      {"models", ScriptedEngine::of(200, R"([{"id":"m"}])")},
      {"models", ScriptedEngine::of(200, std::string(2u << 20, ' ') + R"({"data":[]})")},
      {"models",
       ScriptedEngine::of(200, R"({"data":[)" + std::string(40, '[') + std::string(40, ']') + "]}")},
      {"completions", ScriptedEngine::of(404, "")},
      {"completions", ScriptedEngine::of(200, "{")},
      {"completions", ScriptedEngine::of(200, R"({"choices":[]})")},
      {"completions", ScriptedEngine::of(200, R"({"choices":["text"]})")},
      {"completions", ScriptedEngine::of(200, R"({"choices":{"0":{"text":"a"}}})")},
      {"completions", ScriptedEngine::of(200, R"({"choices":[{"message":{"content":"a"}}]})")},
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
  for (const char* question : {"health", "models", "completions"}) {
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
      {"https://127.0.0.1:8000", ErrorCode::unsupported},
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
    CHECK(EngineClient::connect(url, "m", {}).error().code == code);
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
  const ScriptedEngine busy(only("rescoring", ScriptedEngine::of(429, "")));
  auto client = EngineClient::connect(busy.url(), "m", {});
  REQUIRE(client);
  const auto refused = client->score("a text");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message == "the engine " + busy.url() + " answered 429 to a request for scores");
  ScriptedEngine engine;
  auto other = EngineClient::connect(engine.url(), "m", {});
  REQUIRE(other);
  CHECK(other->score({1, 2, 3})->tokens.size() == 3);
  CHECK(json::parse(engine.asked().back().body)["prompt"] == json({1, 2, 3}));
  CHECK(json::parse(engine.asked().back().body)["max_tokens"] == 0);
  const ScriptedEngine merging(
      [](const net::Request&, const json&) { return ScriptedEngine::of(200, echo("xx", {"xx"}, {-1})); });
  auto third = EngineClient::connect(merging.url(), "m", {});
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
