#include <doctest/doctest.h>

#include <mutex>
#include <thread>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

TEST_CASE("a client that sends its head too slowly is cut") {
  TestRouter router([](RouterOptions& options) { options.header_ms = 50; });
  TestClient client(router.port());
  client.send("GET /health HTTP/1.1\r\n");
  CHECK(client.closed());
}

TEST_CASE("a client that sends its body too slowly is cut") {
  TestRouter router([](RouterOptions& options) { options.body_ms = 50; });
  TestClient client(router.port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{");
  CHECK(client.closed());
}

TEST_CASE("an idle connection is closed in time") {
  TestRouter router([](RouterOptions& options) { options.idle_ms = 50; });
  int served = 0;
  // One that is held up before it asks is closed unanswered.
  for (int tries = 0; tries < 1'000 && served == 0; ++tries) {
    TestClient client(router.port());
    served += client.get("/health").status == 200 ? 1 : 0;
    CHECK(client.closed());
  }
  CHECK(served == 1);
}

TEST_CASE("a client that does not read is cut and is no failure of the engine") {
  const auto many = token_event(std::string(60'000, 'x'));
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    visit.send(stream_head());
    while (visit.open()) visit.send(chunk(many));
  });
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) { options.write_stall_ms = 100; });
  TestClient client(router.port(), TestClient::narrow_socket());
  client.send(post_text(tiny_request(true)));
  CHECK(router.observations(1)[0].outcome == Outcome::excluded);
}

TEST_CASE("an engine that is too slow is a timeout, and the client is told") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) {
    if (visit.request().find("slow") != std::string::npos) visit.wait_for_close();
    if (visit.open()) visit.send(answer_with(200, completion_of("x")));
  });
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) { options.request_deadline_ms = 60; });
  TestClient client(router.port());
  // Over a kept connection, so that connecting cannot take the time; one answer in time makes that.
  std::size_t asked = 1;
  while (asked < 1'000 && client.post(tiny_request()).status != 200) ++asked;
  CHECK(client.post(tiny_request(false, R"(,"suffix":"slow")")).status == 504);
  const auto seen = router.observations(asked + 1);
  CHECK(seen[asked].reason == "timeout");
  // 0 is told of a request that was given up before its session, held up longer, could tell its own end.
  if (seen[asked].total_ms > 0) CHECK(seen[asked].total_ms >= 60);
}

TEST_CASE("draining lets requests in flight end and closes idle connections") {
  std::mutex gate;
  gate.lock();
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    gate.lock();
    gate.unlock();
    visit.send(answer_with(200, completion_of("x")));
  });
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) { options.drain_ms = 120'000; });
  TestClient idle(router.port());
  CHECK(idle.get("/health").status == 200);
  TestClient busy(router.port());
  busy.send(post_text(tiny_request()));
  while (engine.requests() < 1) std::this_thread::yield();
  bool drained = false;
  std::thread draining([&] { drained = router.router().drain(); });
  CHECK(idle.closed());
  gate.unlock();
  CHECK(busy.read_answer().body == completion_of("x"));
  CHECK(busy.closed());
  draining.join();
  CHECK(drained);
  CHECK_THROWS(TestClient(router.port()));
}
