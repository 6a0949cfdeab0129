#include <doctest/doctest.h>

#include <mutex>
#include <string>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

TEST_CASE("a stream that goes on outlives the deadline of requests") {
  std::mutex gate;
  gate.lock();
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    if (visit.request().find("\"stream\":true") == std::string::npos) return visit.wait_for_close();
    visit.send(stream_head() + chunk(token_event("begun")));
    gate.lock();
    gate.unlock();
    visit.send(chunk(token_event("ended")) + chunk(kDoneEvent) + kLastChunk);
  });
  TestRouter router(route_to(engine.url()),
                    [](RouterOptions& options) { options.request_deadline_ms = 500; });
  TestClient stream(router.port());
  stream.send(post_text(tiny_request(true)));
  REQUIRE(stream.read_until("begun"));
  // A request that is sent now and is past its deadline says that the stream is, too.
  TestClient other(router.port());
  CHECK(other.post(tiny_request()).status == 504);
  gate.unlock();
  const auto answer = stream.read_answer();
  CHECK(answer.complete);
  CHECK(answer.body == token_event("begun") + token_event("ended") + kDoneEvent);
  for (const auto& seen : router.observations(2)) {
    if (seen.reason == "timeout") continue;
    CHECK(seen.outcome == Outcome::ok);
    CHECK(seen.total_ms >= 500);
  }
}

TEST_CASE("a stream that falls silent is broken off, and that is a failure of its engine") {
  HangingEngine engine("part");
  engine.hang(Hang::after_token);
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) { options.between_ms = 60; });
  TestClient client(router.port());
  const auto answer = client.post(tiny_request(true));
  CHECK(answer.body == token_event("part"));
  CHECK_FALSE(answer.complete);
  const auto seen = router.observations(1)[0];
  CHECK(seen.outcome == Outcome::failed);
  CHECK(seen.reason == "stalled");
  CHECK_FALSE(seen.retried);
}

TEST_CASE("while a client does not read, the time between two parts of its answer does not run") {
  const auto many = token_event(std::string(60'000, 'x'));
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    if (visit.request().find("\"stream\":true") == std::string::npos) return visit.wait_for_close();
    visit.send(stream_head());
    for (int i = 0; i < 200; ++i) visit.send(chunk(many));
    visit.send(chunk(kDoneEvent) + kLastChunk);
  });
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) {
    options.between_ms = 400;
    options.request_deadline_ms = 1'200;
  });
  TestClient client(router.port(), TestClient::narrow_socket());
  client.send(post_text(tiny_request(true)));
  TestClient other(router.port());
  CHECK(other.post(tiny_request()).status == 504);  // three times as long has passed
  const auto answer = client.read_answer();
  CHECK(answer.complete);
  CHECK(answer.body.ends_with(kDoneEvent));
}
