#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

const std::string kResponse = R"({"object":"response","status":"completed","output":[]})";
const std::string kMessage = R"({"type":"message","content":[{"type":"text","text":"x"}]})";

std::string path_of(const ScriptedEngine::Visit& visit) {
  const auto begin = visit.request().find(' ') + 1;
  return visit.request().substr(begin, visit.request().find(' ', begin) - begin);
}

bool wants_stream(const ScriptedEngine::Visit& visit) {
  return visit.request().find("\"stream\":true") != std::string::npos;
}

/// An engine that serves every shape, and names itself where nothing is read.
ScriptedEngine::Script serve_all(const std::string& name) {
  return [name](ScriptedEngine::Visit& visit) {
    const auto path = path_of(visit);
    if (path == "/v1/messages" && wants_stream(visit)) {
      visit.send(stream_head() +
                 chunk("event: content_block_delta\ndata: {\"type\":\"content_block_delta\"}\n\n"));
      return visit.send(chunk("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") + kLastChunk);
    }
    if (path == "/v1/messages") return visit.send(answer_with(200, kMessage));
    if (path == "/v1/responses") return visit.send(answer_with(200, kResponse));
    if (path == "/v1/embeddings") return visit.send(answer_with(200, R"({"data":[]})"));
    if (path.starts_with("/v1/completions")) return visit.send(answer_with(200, completion_of(name)));
    visit.send(answer_with(200, name + " " + path, "text/plain"));
  };
}

std::string body_of(const std::string& model, const std::string& more = {}) {
  return R"({"model":")" + model + "\"" + more + "}";
}

std::uint64_t others_of(const std::vector<Window>& windows) {
  std::uint64_t sum = 0;
  for (const auto& window : windows) sum += window.others;
  return sum;
}

std::size_t observations_of(const std::vector<Window>& windows) {
  std::size_t sum = 0;
  for (const auto& window : windows) sum += window.observations.size();
  return sum;
}

nlohmann::json error_of(const TestClient::Answer& answer) {
  return nlohmann::json::parse(answer.body)["error"];
}

}  // namespace

TEST_CASE("responses, messages and embeddings are passed on and judged in their own shapes") {
  ScriptedEngine engine(serve_all("x"));
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  CHECK(client.post(body_of("tiny", R"(,"input":"four")"), {}, "/v1/responses").body == kResponse);
  const auto message = body_of("tiny", R"(,"messages":[],"metadata":{"user_id":"alice"})");
  CHECK(client.post(message, {}, "/v1/messages").body == kMessage);
  const auto stream = client.post(body_of("tiny", R"(,"messages":[],"stream":true)"), {}, "/v1/messages");
  CHECK(stream.complete);
  CHECK(stream.body.find("message_stop") != std::string::npos);
  CHECK(client.post(body_of("tiny", R"(,"input":["ab","c"])"), {}, "/v1/embeddings").status == 200);
  const auto seen = router.observations(4);
  for (const auto& one : seen) CHECK(one.outcome == Outcome::ok);
  CHECK(seen[0].prompt_chars == 4);
  CHECK_FALSE(seen[1].keyless);
  CHECK(seen[1].slice.empty());
  CHECK(seen[2].keyless);
  CHECK(seen[3].prompt_chars == 3);
}

TEST_CASE("a candidate's answer of another shape is a failure, and the incumbent answers") {
  ScriptedEngine incumbent(serve_all("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router(route_to(incumbent.url(), candidate.url(), 10'000));
  TestClient client(router.port());
  CHECK(client.post(body_of("tiny", R"(,"messages":[])"), {}, "/v1/messages").body == kMessage);
  const auto seen = router.observations(1);
  CHECK(seen[0].reason == "bad_body");
  CHECK(seen[0].retried);
}

TEST_CASE("errors of the router have the format of the API that was asked") {
  TestRouter router(route_to("http://127.0.0.1:9"));
  TestClient client(router.port());
  const auto unknown = client.post(body_of("other"), {}, "/v1/messages");
  CHECK(unknown.status == 404);
  CHECK(nlohmann::json::parse(unknown.body)["type"] == "error");
  CHECK(error_of(unknown)["type"] == "not_found_error");
  CHECK(error_of(client.post("{}", {}, "/v1/messages"))["type"] == "invalid_request_error");
  const auto broken = client.post(body_of("tiny"), {}, "/v1/messages");
  CHECK(broken.status == 502);
  CHECK(error_of(broken)["type"] == "api_error");
  CHECK(error_of(client.post(body_of("other"), {}, "/v1/responses"))["code"] == "model_not_found");
  CHECK(error_of(client.get("/v1/responses"))["code"] == "method_not_allowed");
}

TEST_CASE("a model is shown by its name, and one that is not served is not found") {
  auto route = route_to("http://127.0.0.1:9");
  route.model = "org/tiny";
  TestRouter router(route);
  TestClient client(router.port());
  CHECK(nlohmann::json::parse(client.get("/v1/models/org/tiny").body)["id"] == "org/tiny");
  CHECK(client.get("/v1/models/org%2Ftiny").status == 200);
  CHECK(client.get("/v1/models/tiny").status == 404);
  CHECK(client.post("{}", {}, "/v1/models/tiny").status == 405);
}

TEST_CASE("what is not judged goes to the version of its key, and is only counted") {
  ScriptedEngine incumbent(serve_all("inc"));
  ScriptedEngine candidate(serve_all("cand"));
  TestRouter router(route_to(incumbent.url(), candidate.url(), 10'000),
                    [](RouterOptions& options) { options.further_paths = "/v1/audio/*"; });
  TestClient client(router.port());
  CHECK(client.post(R"({"prompt":"a"})", {}, "/tokenize").body == "cand /tokenize");  // the only model
  CHECK(client.post("no JSON", "driftgate-model: tiny\r\n", "/v1/audio/speech?x=1").body ==
        "cand /v1/audio/speech?x=1");
  CHECK(client.get("/v1/audio/voices").body == "cand /v1/audio/voices");
  CHECK(client.get("/v1/files").status == 404);
  CHECK(client.post(tiny_request()).body == completion_of("cand"));
  const auto windows =
      router.windows_until([](const auto& all) { return others_of(all) == 3 && observations_of(all) == 1; });
  for (const auto& window : windows) CHECK(window.others_failed == 0);
}

TEST_CASE("with several models, what names none is refused") {
  ScriptedEngine engine(serve_all("x"));
  TestRouter router(route_to(engine.url()));
  auto other = route_to(engine.url());
  other.model = "other";
  router.apply(other);
  TestClient client(router.port());
  CHECK(error_of(client.post(R"({"prompt":"a"})", {}, "/tokenize"))["code"] == "model_missing");
  CHECK(client.post(body_of("tiny"), {}, "/tokenize").status == 200);
  CHECK(client.post(R"({"prompt":"a"})", "driftgate-model: other\r\n", "/tokenize").status == 200);
}

TEST_CASE("a request that must not be made twice is asked again only of an engine that was not reached") {
  ScriptedEngine incumbent(serve_all("inc"));
  ScriptedEngine failing([](ScriptedEngine::Visit& visit) { visit.send(answer_with(500, "{}")); });
  const auto further = [](RouterOptions& options) { options.further_paths = "/v1/files"; };
  {
    TestRouter router(route_to(incumbent.url(), failing.url(), 10'000), further);
    TestClient client(router.port());
    CHECK(client.post("{}", {}, "/v1/files").status == 500);
    CHECK(client.post("{}", {}, "/tokenize").body == "inc /tokenize");
    CHECK(incumbent.requests() == 1);
  }
  TestRouter router(route_to(incumbent.url(), "http://127.0.0.1:9", 10'000), further);
  TestClient client(router.port());
  CHECK(client.post("{}", {}, "/v1/files").body == "inc /v1/files");
}

TEST_CASE("only completions are mirrored") {
  ScriptedEngine incumbent(serve_all("inc"));
  ScriptedEngine candidate(serve_all("cand"));
  auto route = route_to(incumbent.url(), candidate.url());
  route.mirror_bp = 10'000;
  route.mirror_token_budget = 1'000'000;
  TestRouter router(route);
  TestClient client(router.port());
  CHECK(client.post(body_of("tiny", R"(,"messages":[])"), {}, "/v1/messages").status == 200);
  CHECK(client.post(body_of("tiny"), {}, "/v1/responses").status == 200);
  CHECK(client.post(tiny_request()).status == 200);
  router.windows_until([](const auto& windows) {
    std::uint64_t mirrored = 0;
    for (const auto& window : windows) mirrored += window.mirrored;
    return mirrored > 0;
  });
  CHECK(candidate.requests() == 1);
}

TEST_CASE("a router with a further path that is none does not start") {
  RouterOptions options;
  options.further_paths = "rerank";
  CHECK(Router::start(options).error().code == driftgate::schema::ErrorCode::invalid_argument);
}
