#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

/// A port that nobody listens on and nobody can take meanwhile.
class ClosedPort {
 public:
  ClosedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address_), size) == 0);
    REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_), &size) == 0);
  }
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port));
  }

 private:
  driftgate::base::UniqueFd socket_;
  sockaddr_in address_{};
};

/// Asks once with the candidate at 100% and says what telemetry made of it.
struct Tried {
  TestClient::Answer answer;
  Observation seen;
};

Tried try_candidate(const ScriptedEngine::Script& script, bool stream,
                    std::uint32_t deadline_ms = RouterOptions{}.request_deadline_ms) {
  ScriptedEngine incumbent([](ScriptedEngine::Visit& visit) {
    const bool streamed = visit.request().find("\"stream\":true") != std::string::npos;
    visit.send(streamed ? stream_head() + chunk(token_event("inc")) + chunk(kDoneEvent) + kLastChunk
                        : answer_with(200, completion_of("inc")));
  });
  ScriptedEngine candidate(script);
  TestRouter router(route_to(incumbent.url(), candidate.url(), 10'000),
                    [&](RouterOptions& options) { options.request_deadline_ms = deadline_ms; });
  TestClient client(router.port());
  Tried tried;
  tried.answer = client.post(tiny_request(stream));
  tried.seen = router.observations(1)[0];
  return tried;
}

void check_retried(const Tried& tried, const std::string& reason) {
  CAPTURE(reason);
  CHECK(tried.answer.status == 200);
  CHECK(tried.answer.complete);
  CHECK(tried.answer.body.find("inc") != std::string::npos);
  CHECK(tried.seen.candidate);
  CHECK(tried.seen.retried);
  CHECK(tried.seen.outcome == Outcome::failed);
  CHECK(tried.seen.reason == reason);
}

}  // namespace

TEST_CASE("what the candidate fails before its first byte the incumbent answers, and the failure counts") {
  using Visit = ScriptedEngine::Visit;
  check_retried(try_candidate([](Visit& visit) { visit.send(answer_with(500, "{}")); }, false), "status_500");
  check_retried(try_candidate([](Visit& visit) { visit.send(answer_with(429, "{}")); }, false), "status_429");
  check_retried(try_candidate([](Visit& visit) { visit.send(answer_with(200, "<html>")); }, false),
                "bad_body");
  check_retried(try_candidate([](Visit& visit) { visit.send(answer_with(200, completion_of("x"))); }, true),
                "bad_body");
  check_retried(try_candidate([](Visit& visit) { visit.send("garbage\r\n\r\n"); }, false), "bad_head");
  check_retried(try_candidate([](Visit& visit) { visit.hang_up(); }, false), "no_answer");
  // Long, since the incumbent has the same deadline for its own answer.
  check_retried(try_candidate([](Visit& visit) { visit.wait_for_close(); }, false, 3'000), "timeout");
  check_retried(try_candidate([](Visit& visit) { visit.send(stream_head()), visit.hang_up(); }, true),
                "truncated_stream");
  check_retried(try_candidate(
                    [](Visit& visit) {
                      visit.send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"choices\":[");
                      visit.hang_up();
                    },
                    false),
                "truncated_answer");
}

TEST_CASE("an engine that cannot be reached is a connect error") {
  const ClosedPort closed;
  const auto gone = closed.url();
  ScriptedEngine incumbent(serve_completions("inc"));
  TestRouter router(route_to(incumbent.url(), gone, 10'000));
  TestClient client(router.port());
  CHECK(client.post(tiny_request()).body == completion_of("inc"));
  CHECK(router.observations(1)[0].reason == "connect");
  router.apply(route_to(gone));
  const auto answer = client.post(tiny_request());
  CHECK(answer.status == 502);
  CHECK(nlohmann::json::parse(answer.body)["error"]["code"] == "engine_connect");
  const auto seen = router.observations(2);
  CHECK_FALSE(seen[1].candidate);
  CHECK_FALSE(seen[1].retried);
  CHECK(seen[1].outcome == Outcome::failed);
}

TEST_CASE("a stream that breaks after its first byte is a failure and the client can see it") {
  const auto tried = try_candidate(
      [](ScriptedEngine::Visit& visit) {
        visit.send(stream_head() + chunk(token_event("part")));
        visit.hang_up();
      },
      true);
  CHECK(tried.answer.body == token_event("part"));
  CHECK_FALSE(tried.answer.complete);
  CHECK(tried.seen.outcome == Outcome::failed);
  CHECK(tried.seen.reason == "truncated_stream");
  CHECK_FALSE(tried.seen.retried);
}

TEST_CASE("a stream that ends in good order but without its end mark is a failure passed on as it is") {
  const auto tried = try_candidate(
      [](ScriptedEngine::Visit& visit) {
        visit.send(stream_head() + chunk(token_event("part")) + kLastChunk);
      },
      true);
  CHECK(tried.answer.body == token_event("part"));
  CHECK(tried.answer.complete);
  CHECK(tried.seen.reason == "truncated_stream");
}

TEST_CASE("a client's own mistake is passed on, not retried and outside the denominator") {
  const auto tried = try_candidate(
      [](ScriptedEngine::Visit& visit) { visit.send(answer_with(400, R"({"error":{"message":"no"}})")); },
      false);
  CHECK(tried.answer.status == 400);
  CHECK(tried.answer.body == R"({"error":{"message":"no"}})");
  CHECK(tried.seen.outcome == Outcome::excluded);
  CHECK_FALSE(tried.seen.retried);
}

TEST_CASE("what the incumbent answers badly is passed on and counts") {
  ScriptedEngine incumbent(
      [](ScriptedEngine::Visit& visit) { visit.send(answer_with(503, "busy", "text/plain")); });
  TestRouter router(route_to(incumbent.url()));
  TestClient client(router.port());
  const auto answer = client.post(tiny_request());
  CHECK(answer.status == 503);
  CHECK(answer.body == "busy");
  CHECK(router.observations(1)[0].reason == "status_503");
  CHECK(incumbent.requests() == 1);
}

TEST_CASE("a kept connection that the engine closed is replaced without counting a failure") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) {
    visit.send(answer_with(200, completion_of("x")));
    visit.hang_up();
  });
  TestRouter router(route_to(engine.url()));
  TestClient client(router.port());
  for (int i = 0; i < 20; ++i) CHECK(client.post(tiny_request()).status == 200);
  for (const auto& seen : router.observations(20)) CHECK(seen.outcome == Outcome::ok);
}

TEST_CASE("a client that leaves is outside the denominator and the engine is let go") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) {
    if (visit.request().find("\"stream\":true") != std::string::npos)
      visit.send(stream_head() + chunk(token_event("a")));
    visit.wait_for_close();
  });
  TestRouter router(route_to(engine.url(), engine.url(), 10'000));
  {
    TestClient streaming(router.port());
    streaming.send(post_text(tiny_request(true)));
    REQUIRE(streaming.read_until("\"a\""));
  }
  CHECK(router.observations(1)[0].outcome == Outcome::excluded);
  {
    TestClient waiting(router.port());
    waiting.send(post_text(tiny_request()));
    while (engine.requests() < 2) std::this_thread::yield();
  }
  const auto seen = router.observations(2);
  CHECK(seen[1].outcome == Outcome::excluded);
  CHECK(seen[1].reason == "client_gone");
  CHECK_FALSE(seen[1].retried);
  CHECK(engine.requests() == 2);
}
