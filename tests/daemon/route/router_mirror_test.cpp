#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <mutex>

#include "daemon/route/control/telemetry_json.hpp"
#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

constexpr const char* kStage = "p1/shadow/1";

ModelRoute mirrored(const std::string& incumbent, const std::string& candidate) {
  auto route = route_to(incumbent, candidate, 0);
  route.stage_key = kStage;
  route.mirror_bp = 10'000;
  route.mirror_token_budget = 1'000'000;
  return route;
}

struct Counts {
  std::uint64_t mirrored = 0, failed = 0, skipped = 0;
};

Counts counts_until(TestRouter& router, std::uint64_t total) {
  Counts sum;
  router.windows_until([&](const std::vector<Window>& windows) {
    sum = {};
    for (const auto& window : windows) {
      sum.mirrored += window.mirrored;
      sum.failed += window.mirror_failed;
      sum.skipped += window.mirror_skipped;
    }
    return sum.mirrored + sum.skipped >= total;
  });
  return sum;
}

std::vector<MirroredPair> pairs_of(TestRouter& router) {
  const auto path = router.driver().spool_path(kStage);
  REQUIRE(path);
  std::ifstream file(*path);
  std::vector<MirroredPair> pairs;
  for (std::string line; std::getline(file, line);) {
    auto pair = pair_from_line(line);
    REQUIRE(pair);
    pairs.push_back(std::move(*pair));
  }
  return pairs;
}

}  // namespace

TEST_CASE("a mirrored request is recorded with both answers and users see only the incumbent's") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  CHECK(client.post(tiny_request(), "driftgate-slice: language=de\r\n").body == completion_of("inc"));
  CHECK(counts_until(router, 1).mirrored == 1);
  const auto pairs = pairs_of(router);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].request_body == tiny_request());
  CHECK(pairs[0].path == "/v1/completions");
  CHECK(pairs[0].slice == "language=de");
  CHECK(pairs[0].incumbent.body == completion_of("inc"));
  CHECK(pairs[0].candidate.body == completion_of("cand"));
  CHECK(pairs[0].candidate.status == 200);
  CHECK(pairs[0].candidate.reason.empty());
  CHECK(pairs[0].order == router.observations(1)[0].order);
  CHECK(pairs[0].key_hash == router.observations(1)[0].key_hash);
  CHECK(candidate.seen()[0].ends_with(tiny_request()));
}

TEST_CASE("without a candidate the request is kept with the incumbent's answer, and no failure is") {
  ScriptedEngine incumbent([](ScriptedEngine::Visit& visit) {
    const bool first = visit.request().find("first") != std::string::npos;
    visit.send(first ? answer_with(500, "broken") : answer_with(200, completion_of("inc")));
  });
  auto route = mirrored(incumbent.url(), incumbent.url());
  route.candidate.reset();
  TestRouter router(route);
  TestClient client(router.port());
  CHECK(client.post(tiny_request(false, R"(,"suffix":"first")")).status >= 500);
  CHECK(client.post(tiny_request(), "driftgate-slice: language=de\r\n").body == completion_of("inc"));
  const auto counts = counts_until(router, 2);
  CHECK(counts.mirrored == 1);
  CHECK(counts.skipped == 1);
  const auto pairs = pairs_of(router);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].request_body == tiny_request());
  CHECK(pairs[0].slice == "language=de");
  CHECK(pairs[0].incumbent.body == completion_of("inc"));
  CHECK(pairs[0].candidate.status == 0);
  CHECK(pairs[0].candidate.body.empty());
}

TEST_CASE("streams are mirrored with their text") {
  const auto script = [](const std::string& name) {
    return [name](ScriptedEngine::Visit& visit) {
      visit.send(stream_head() + chunk(token_event(name)) + chunk(kDoneEvent) + kLastChunk);
    };
  };
  ScriptedEngine incumbent(script("inc"));
  ScriptedEngine candidate(script("cand"));
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  CHECK(client.post(tiny_request(true)).body == token_event("inc") + kDoneEvent);
  CHECK(counts_until(router, 1).mirrored == 1);
  CHECK(pairs_of(router)[0].incumbent.body == token_event("inc") + kDoneEvent);
  CHECK(pairs_of(router)[0].candidate.body == token_event("cand") + kDoneEvent);
}

TEST_CASE("a candidate that fails its mirrored requests is recorded and disturbs nobody") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([](ScriptedEngine::Visit& visit) { visit.send(answer_with(500, "\xff broken")); });
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  for (int i = 0; i < 10; ++i) CHECK(client.post(tiny_request()).body == completion_of("inc"));
  const auto counts = counts_until(router, 10);
  CHECK(counts.mirrored == 10);
  CHECK(counts.failed == 10);
  for (const auto& pair : pairs_of(router)) {
    CHECK(pair.candidate.status == 500);
    CHECK(pair.candidate.reason == "status_500");
  }
  for (const auto& seen : router.observations(10)) {
    CHECK(seen.outcome == Outcome::ok);
    CHECK_FALSE(seen.candidate);
  }
}

TEST_CASE("a candidate that hangs holds up no user, and what the queue cannot take is counted") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([](ScriptedEngine::Visit& visit) { visit.wait_for_close(); });
  TestRouter router(mirrored(incumbent.url(), candidate.url()), [](RouterOptions& options) {
    options.mirror_concurrency = 1;
    options.mirror_queue = 2;
  });
  TestClient client(router.port());
  for (int i = 0; i < 10; ++i) CHECK(client.post(tiny_request()).body == completion_of("inc"));
  CHECK(counts_until(router, 7).skipped == 7);
}

TEST_CASE("a copy waits until the candidate has no more in flight than the incumbent had") {
  std::atomic<int> now = 0, most = 0;
  std::promise<void> asked;
  const auto all_asked = asked.get_future().share();
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([&](ScriptedEngine::Visit& visit) {
    most = std::max(most.load(), ++now);
    all_asked.wait();
    --now;
    visit.send(answer_with(200, completion_of("cand")));
  });
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  for (int i = 0; i < 10; ++i) CHECK(client.post(tiny_request()).body == completion_of("inc"));
  asked.set_value();
  CHECK(counts_until(router, 10).mirrored == 10);
  CHECK(most == 1);
  for (const auto& pair : pairs_of(router)) {
    CHECK(pair.incumbent.in_flight == 1U);
    CHECK(pair.candidate.in_flight == 1U);
  }
}

TEST_CASE("copies of a candidate that hangs hold others back for two seconds, so that it shows in several") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([](ScriptedEngine::Visit& visit) { visit.wait_for_close(); });
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (candidate.requests() < 3 && std::chrono::steady_clock::now() < until)
    CHECK(client.post(tiny_request()).body == completion_of("inc"));
  CHECK(candidate.requests() >= 3);
}

TEST_CASE("the token budget bounds what is asked of the candidate") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router;
  auto route = mirrored(incumbent.url(), candidate.url());
  route.mirror_token_budget = 12;  // three requests of 4 tokens
  router.apply(route);
  TestClient client(router.port());
  for (int i = 0; i < 5; ++i) client.post(tiny_request());
  const auto counts = counts_until(router, 5);
  CHECK(counts.mirrored == 3);
  CHECK(counts.skipped == 2);
  CHECK(candidate.requests() == 3);
}

TEST_CASE("bodies over the limit and requests that the incumbent refused are not mirrored") {
  ScriptedEngine incumbent([](ScriptedEngine::Visit& visit) {
    const bool bad = visit.request().find("bad") != std::string::npos;
    visit.send(answer_with(bad ? 400 : 200, completion_of("inc")));
  });
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  client.post(tiny_request(false, R"(,"suffix":"bad")"));
  client.post(tiny_request(false, R"(,"suffix":")" + std::string(kMaxMirroredBodyBytes, 'x') + "\""));
  client.post(tiny_request());
  const auto counts = counts_until(router, 2);
  CHECK(counts.mirrored == 1);
  CHECK(counts.skipped == 1);
  CHECK(candidate.requests() == 1);
}

TEST_CASE("a spool that is dropped takes no late pair") {
  std::mutex gate;
  gate.lock();
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([&](ScriptedEngine::Visit& visit) {
    gate.lock();
    gate.unlock();
    visit.send(answer_with(200, completion_of("cand")));
  });
  TestRouter router(mirrored(incumbent.url(), candidate.url()));
  TestClient client(router.port());
  client.post(tiny_request());
  REQUIRE(router.driver().drop_spool(kStage));
  gate.unlock();
  CHECK(counts_until(router, 1).skipped == 1);
  CHECK_FALSE(router.driver().spool_path(kStage));
}
