#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

constexpr std::uint32_t kNever = 86'000'000;  ///< of options in ms

/// Two engines, the candidate with all of the traffic.
struct Pair {
  explicit Pair(const TestRouter::Change& change) : router(change) {
    router.apply(route_to(incumbent.url(), candidate.url(), 10'000));
  }
  HangingEngine incumbent{"inc"};
  HangingEngine candidate{"cand"};
  TestRouter router;
};

bool answered_by(const TestClient::Answer& answer, const std::string& name) {
  return answer.status == 200 && answer.complete && answer.body.find('"' + name + '"') != std::string::npos;
}

void short_first_byte(RouterOptions& options) {
  options.first_byte_ms = 50;
  options.breaker_failures = 0;
}

/// Probes find out soon; requests are never late.
void quick_probes(RouterOptions& options) {
  options.first_byte_ms = kNever;
  options.probe_ms = 100;
  options.probe_timeout_ms = 900;
}

}  // namespace

TEST_CASE(
    "a stream whose first byte is late comes from the incumbent, and the late byte is the candidate's "
    "failure") {
  for (const Hang where : {Hang::before_head, Hang::after_head}) {
    Pair pair(short_first_byte);
    pair.candidate.hang(where);
    TestClient client(pair.router.port());
    CHECK(answered_by(client.post(tiny_request(true)), "inc"));
    const auto seen = pair.router.observations(1)[0];
    CHECK(seen.candidate);
    CHECK(seen.retried);
    CHECK_FALSE(seen.withheld);
    CHECK(seen.outcome == Outcome::failed);
    CHECK(seen.reason == "first_byte");
    CHECK(pair.candidate.asked() == 1);
  }
}

TEST_CASE("the limit of answers that are not streamed is learned, and covers the whole answer") {
  Pair pair([](RouterOptions& options) {
    options.first_byte_ms = kNever;
    options.first_byte_floor_ms = 20;
    options.breaker_failures = 0;
  });
  TestClient client(pair.router.port());
  std::size_t asked = 0;
  for (; asked < 10'000 && pair.router.health_of(pair.candidate.url()).answer_ms == 0; ++asked)
    REQUIRE(client.post(tiny_request()).status == 200);
  pair.candidate.hang(Hang::before_head);
  CHECK(answered_by(client.post(tiny_request()), "inc"));
  CHECK(pair.router.observations(asked + 1)[asked].reason == "first_byte");
}

TEST_CASE("once the breaker is open requests go to the incumbent at once, and telemetry says so") {
  Pair pair([](RouterOptions& options) {
    options.first_byte_ms = 200;
    options.probe_ms = kNever;  // and at once when an engine is in trouble
  });
  pair.candidate.hang(Hang::before_head);
  pair.candidate.hang_probes(true);
  TestClient client(pair.router.port());
  for (int i = 0; i < 3; ++i) CHECK(answered_by(client.post(tiny_request(true)), "inc"));
  pair.router.await_breaker(pair.candidate.url(), BreakerState::open);
  const auto asked = pair.candidate.asked();
  for (int i = 0; i < 5; ++i) CHECK(answered_by(client.post(tiny_request(i % 2 == 0)), "inc"));
  CHECK(pair.candidate.asked() == asked);
  const auto seen = pair.router.observations(8);
  for (std::size_t i = 3; i < 8; ++i) {
    CHECK(seen[i].candidate);
    CHECK(seen[i].withheld);
    CHECK(seen[i].retried);
    CHECK(seen[i].outcome == Outcome::failed);
    CHECK(seen[i].reason == "breaker_open");
  }
  const auto events = pair.router.health().events;
  REQUIRE(events.size() == 1);
  CHECK(events[0].opened);
  CHECK(events[0].url == pair.candidate.url());
  CHECK(events[0].failures == 3);
}

TEST_CASE("requests that wait for their first byte when the breaker opens do not wait for their own limit") {
  Pair pair(quick_probes);
  pair.candidate.hang(Hang::after_head);
  TestClient waiting(pair.router.port());
  waiting.send(post_text(tiny_request(true)));
  while (pair.candidate.asked() < 1) std::this_thread::yield();
  pair.candidate.hang_probes(true);  // three probes without an answer open it
  CHECK(answered_by(waiting.read_answer(), "inc"));
  const auto seen = pair.router.observations(1)[0];
  CHECK(seen.reason == "breaker_open");
  CHECK(seen.outcome == Outcome::failed);
  CHECK(seen.retried);
  CHECK_FALSE(seen.withheld);  // it was asked
  const auto events = pair.router.health().events;
  REQUIRE_FALSE(events.empty());
  CHECK(events[0].reason == "probe_timeout");
}

TEST_CASE("without traffic probes open the breaker, and answered ones let a request close it") {
  Pair pair(quick_probes);
  pair.candidate.hang_probes(true);
  pair.router.await_breaker(pair.candidate.url(), BreakerState::open);
  pair.candidate.hang_probes(false);
  pair.router.await_breaker(pair.candidate.url(), BreakerState::half_open);
  TestClient client(pair.router.port());
  CHECK(answered_by(client.post(tiny_request()), "cand"));
  CHECK(pair.router.observations(1)[0].outcome == Outcome::ok);
  CHECK(pair.router.health_of(pair.candidate.url()).state == BreakerState::closed);
  const auto events = pair.router.health().events;
  REQUIRE(events.size() >= 2);
  CHECK(events[0].opened);
  CHECK_FALSE(events[1].opened);
}

TEST_CASE(
    "an engine without /health is asked for its models, and any answer but one of 5xx is a sign of life") {
  std::atomic<int> status = 404;
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    const bool health = visit.request().starts_with("GET /health");
    visit.send(answer_with(health ? 404 : status.load(), "{}"));
  });
  TestRouter router(route_to(engine.url()), quick_probes);
  const auto asked_models = [&] {
    const auto seen = engine.seen();
    return std::ranges::any_of(seen, [](const auto& text) { return text.starts_with("GET /v1/models "); });
  };
  while (!asked_models()) std::this_thread::yield();
  CHECK(router.health_of(engine.url()).state == BreakerState::closed);
  status = 503;
  router.await_breaker(engine.url(), BreakerState::open);
  CHECK(router.health_of(engine.url()).reason == "probe_status_503");
  status = 401;
  router.await_breaker(engine.url(), BreakerState::half_open);
}

TEST_CASE("the incumbent's own breaker keeps nobody away from it") {
  Pair pair(quick_probes);
  pair.router.apply(route_to(pair.incumbent.url()));
  pair.incumbent.hang_probes(true);
  pair.router.await_breaker(pair.incumbent.url(), BreakerState::open);
  TestClient client(pair.router.port());
  CHECK(answered_by(client.post(tiny_request()), "inc"));
  CHECK(answered_by(client.post(tiny_request(true)), "inc"));
  for (const auto& seen : pair.router.observations(2)) {
    CHECK(seen.outcome == Outcome::ok);
    CHECK_FALSE(seen.withheld);
  }
}

TEST_CASE("while no engine seems well each request goes where it belongs") {
  Pair pair(quick_probes);
  pair.incumbent.hang_probes(true);
  pair.candidate.hang_probes(true);
  pair.router.await_breaker(pair.incumbent.url(), BreakerState::open);
  pair.router.await_breaker(pair.candidate.url(), BreakerState::open);
  TestClient client(pair.router.port());
  CHECK(answered_by(client.post(tiny_request()), "cand"));
  CHECK(pair.router.observations(1)[0].outcome == Outcome::ok);
}

TEST_CASE("a late answer that nobody else could give reaches its client, and counts as late") {
  std::mutex gate;
  gate.lock();
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    gate.lock();
    gate.unlock();
    visit.send(stream_head() + chunk(token_event("late")) + chunk(kDoneEvent) + kLastChunk);
  });
  TestRouter router(route_to(engine.url()), short_first_byte);
  TestClient client(router.port());
  client.send(post_text(tiny_request(true)));
  while (router.health_of(engine.url()).failures == 0) std::this_thread::yield();
  gate.unlock();
  CHECK(answered_by(client.read_answer(), "late"));
  const auto seen = router.observations(1)[0];
  CHECK_FALSE(seen.candidate);
  CHECK_FALSE(seen.retried);
  CHECK(seen.outcome == Outcome::failed);
  CHECK(seen.reason == "first_byte");
  CHECK(engine.requests() == 1);
  CHECK(router.health_of(engine.url()).failures == 0);  // it has answered
}

TEST_CASE("a client that leaves while it tries an engine leaves the trial to the next") {
  Pair pair(quick_probes);
  pair.candidate.hang_probes(true);
  pair.router.await_breaker(pair.candidate.url(), BreakerState::open);
  pair.candidate.hang(Hang::before_head);
  pair.candidate.hang_probes(false);
  pair.router.await_breaker(pair.candidate.url(), BreakerState::half_open);
  {
    TestClient trying(pair.router.port());
    trying.send(post_text(tiny_request()));
    while (pair.candidate.asked() < 1) std::this_thread::yield();
    TestClient other(pair.router.port());
    CHECK(answered_by(other.post(tiny_request()), "inc"));  // one at a time
  }
  pair.router.observations(2);  // its client's leave was seen
  pair.candidate.hang(Hang::never);
  TestClient next(pair.router.port());
  CHECK(answered_by(next.post(tiny_request()), "cand"));
}
