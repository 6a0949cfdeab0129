#include <doctest/doctest.h>

#include <mutex>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

TEST_CASE("a completion is passed on byte for byte over connections that are kept") {
  ScriptedEngine engine(serve_completions("one"));
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  for (int i = 0; i < 5; ++i) {
    const auto answer = client.post(tiny_request(), "Authorization: Bearer k\r\nDriftgate-Key: alice\r\n");
    CHECK(answer.status == 200);
    CHECK(answer.body == completion_of("one"));
  }
  CHECK(engine.connections() == 1);
  const auto seen = engine.seen().front();
  CHECK(seen.ends_with("\r\n\r\n" + tiny_request()));
  CHECK(seen.find("Authorization: Bearer k") != std::string::npos);
  CHECK(seen.find("alice") == std::string::npos);
}

TEST_CASE("a stream is passed on byte for byte and as it comes") {
  const auto first = token_event("a") + token_event("b");
  const std::string odd = ": comment\r\ndata: {\"choices\":[{\"text\":\"\\u00e4\"}]}\r\n\r\n";
  std::mutex gate;
  gate.lock();
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    visit.send(stream_head() + chunk(first));
    gate.lock();  // until the client has seen the first events
    gate.unlock();
    for (const char byte : odd) visit.send(chunk(std::string(1, byte)));
    visit.send(chunk(kDoneEvent) + kLastChunk);
  });
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  client.send(post_text(tiny_request(true)));
  const bool early = client.read_until("\"text\":\"b\"");
  gate.unlock();
  CHECK(early);
  const auto answer = client.read_answer();
  CHECK(answer.complete);
  CHECK(answer.body == first + odd + kDoneEvent);
  const auto seen = router.observations(1);
  CHECK(seen[0].outcome == Outcome::ok);
  CHECK(seen[0].ttft_ms > 0);
  CHECK(seen[0].inter_token_ms > 0);
  CHECK(seen[0].total_ms >= seen[0].ttft_ms);
  CHECK(client.post(tiny_request(true)).body == first + odd + kDoneEvent);
}

TEST_CASE("a large answer and a chunked request come through whole") {
  const std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  CAPTURE(seed);
  std::string text;
  for (int i = 0; i < 9 << 17; ++i) text += std::to_string(random()).substr(0, 8);
  const auto body = completion_of(text);
  REQUIRE(body.size() > 8u << 20);
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) { visit.send(answer_with(200, body)); });
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  const auto request = tiny_request();
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: "
      "100-continue\r\n\r\n");
  CHECK(client.read_until("100 Continue"));
  CHECK(client.read_answer().status == 100);
  client.send(chunk(request.substr(0, 7)) + chunk(request.substr(7)) + kLastChunk);
  const auto answer = client.read_answer();
  CHECK(answer.status == 200);
  CHECK((answer.body == body));
  CHECK(
      engine.seen()[0].ends_with("Content-Length: " + std::to_string(request.size()) + "\r\n\r\n" + request));
}

TEST_CASE("a client of HTTP/1.0 gets a stream that ends with the connection") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) {
    visit.send(stream_head() + chunk(token_event("a")) + chunk(kDoneEvent) + kLastChunk);
  });
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  const auto request = tiny_request(true);
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(request.size()) +
              "\r\n\r\n" + request);
  CHECK(client.read_answer().body == token_event("a") + kDoneEvent);
}

TEST_CASE("requests sent ahead on one connection are answered in order") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) {
    const auto& text = visit.request();
    visit.send(answer_with(200, completion_of(text.find("first") != std::string::npos ? "1" : "2")));
  });
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  client.send(post_text(tiny_request(false, R"(,"suffix":"first")")) + post_text(tiny_request()));
  CHECK(client.read_answer().body == completion_of("1"));
  CHECK(client.read_answer().body == completion_of("2"));
}

TEST_CASE("the router itself tells its health and its models") {
  TestRouter router;
  TestClient client(router.port());
  CHECK(client.get("/health").body == R"({"status":"ok"})");
  CHECK(nlohmann::json::parse(client.get("/v1/models").body)["data"].empty());
  router.apply(route_to("http://127.0.0.1:9"));
  CHECK(nlohmann::json::parse(client.get("/v1/models").body)["data"][0]["id"] == "tiny");
  CHECK(client.get("/v1/completions").status == 405);
  CHECK(client.get("/elsewhere").status == 404);
  const auto unknown = client.post(R"({"model":"none"})");
  CHECK(unknown.status == 404);
  CHECK(nlohmann::json::parse(unknown.body)["error"]["code"] == "model_not_found");
}

TEST_CASE("several threads serve one port") {
  ScriptedEngine engine(serve_completions("one"));
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) { options.threads = 2; });
  for (int i = 0; i < 16; ++i) {
    TestClient client(router.port());
    CHECK(client.post(tiny_request()).body == completion_of("one"));
  }
  const auto seen = router.observations(16);
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i].order == i + 1);
}

TEST_CASE("a request is the same wherever it is cut on its way, and so is the one behind it") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) {
    const auto body = visit.request().substr(visit.request().find("\r\n\r\n") + 4);
    visit.send(answer_with(200, R"({"choices":[{"text":"x"}],"asked":)" + body + "}"));
  });
  TestRouter router(route_to(engine.url()));
  const auto first = tiny_request(false, R"(,"suffix":"first")");
  const auto second = tiny_request(false, R"(,"suffix":"second")");
  const auto chunked = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                       chunk(first.substr(0, 9)) + chunk(first.substr(9)) + kLastChunk;
  for (const std::string& begin : {post_text(first), chunked}) {
    const auto whole = begin + post_text(second);
    TestClient client(router.port());
    TestClient other(router.port());
    for (std::size_t at = 1; at < whole.size(); at += 3) {
      CAPTURE(at);
      client.send(whole.substr(0, at));
      CHECK(other.get("/health").status == 200);  // what was sent before was read before
      client.send(whole.substr(at));
      CHECK(client.read_answer().body.find("\"first\"") != std::string::npos);
      CHECK(client.read_answer().body.find("\"second\"") != std::string::npos);
    }
  }
}

TEST_CASE("more requests sent ahead than one turn has are answered to the last") {
  TestRouter router;
  TestClient client(router.port());
  std::string many;
  for (int i = 0; i < 200; ++i) many += "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  client.send(many);
  for (int i = 0; i < 200; ++i) CHECK(client.read_answer().body == R"({"status":"ok"})");
}
