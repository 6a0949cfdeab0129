#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "daemon/route/table/bucket.hpp"
#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

TEST_CASE("keys stay with their arm, and telemetry says share, slice and identity of each request") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router;
  auto route = route_to(incumbent.url(), candidate.url(), 5'000);
  route.slices = {{{{"language", "de"}}, 0, false}};
  route.pins = {{"pinned", "candidate"}};
  router.apply(route);
  TestClient client(router.port());
  for (int i = 0; i < 20; ++i) {
    const auto key = "user" + std::to_string(i % 10);
    const auto expected = bucket_of(key, route.seed) < 5'000 ? "cand" : "inc";
    CHECK(client.post(tiny_request(false, R"(,"user":")" + key + "\"")).body == completion_of(expected));
  }
  CHECK(client.post(tiny_request(false, R"(,"user":"x","metadata":{"language":"de"})")).body ==
        completion_of("inc"));
  CHECK(client.post(tiny_request(false, R"(,"user":"ignored")"), "driftgate-key: pinned\r\n").body ==
        completion_of("cand"));
  client.post(tiny_request());
  const auto seen = router.observations(23);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(seen[i].key_hash == key_hash_of("user" + std::to_string(i % 10), route.seed));
    CHECK(seen[i].candidate_bp == 5'000);
    CHECK_FALSE(seen[i].keyless);
    CHECK(seen[i].prompt_chars == 5);
  }
  CHECK(seen[20].slice == "language=de");
  CHECK(seen[20].candidate_bp == 0);
  CHECK(seen[21].pinned);
  CHECK(seen[22].keyless);
}

TEST_CASE("windows carry the stage in force when requests were routed") {
  ScriptedEngine incumbent(serve_completions("inc"));
  TestRouter router;
  auto route = route_to(incumbent.url());
  TestClient client(router.port());
  for (const char* stage : {"p/shadow/1", "p/canary/1"}) {
    route.stage_key = stage;
    router.apply(route);
    client.post(tiny_request());
  }
  router.observations(2);
  std::map<std::string, std::size_t> requests;
  for (const auto& window : router.windows_until([](const auto&) { return true; })) {
    requests[window.stage_key] += window.observations.size();
  }
  CHECK(requests["p/shadow/1"] == 1);
  CHECK(requests["p/canary/1"] == 1);
}

TEST_CASE("windows are numbered without a gap, come also when empty, and go when acknowledged") {
  TestRouter router(route_to("http://127.0.0.1:9"));
  const auto windows = router.windows_until([](const auto& all) { return all.size() >= 3; });
  for (std::size_t i = 0; i < windows.size(); ++i) CHECK(windows[i].number == i + 1);
  REQUIRE(router.driver().acknowledge({windows[1].router_id, 2}));
  CHECK(router.driver().windows({}, 1)->front().number == 3);
}

TEST_CASE("without a heartbeat the candidate is out of sight until the next apply, and traffic goes on") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router([](RouterOptions& options) { options.lease_ms = 300; });
  const auto route = route_to(incumbent.url(), candidate.url(), 10'000);
  TestClient client(router.port());
  // Who is held up between the two finds the candidate gone again.
  const auto candidate_answers_after_apply = [&] {
    router.apply(route);
    return client.post(tiny_request()).body == completion_of("cand");
  };
  CHECK(eventually(candidate_answers_after_apply));
  CHECK(eventually([&] { return router.driver().observe()->front().reverted; }));
  CHECK(router.driver().observe()->front().route.candidate_bp == 0);
  CHECK(client.post(tiny_request()).body == completion_of("inc"));
  REQUIRE(router.driver().heartbeat());
  CHECK(router.driver().observe()->front().reverted);
  CHECK(eventually(candidate_answers_after_apply));
}

TEST_CASE("a restarted router starts from the last route with the candidate's share 0") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  TestRouter router;
  const auto route = route_to(incumbent.url(), candidate.url(), 10'000);
  router.apply(route);
  router.restart();
  {
    TestClient client(router.port());
    CHECK(client.post(tiny_request()).body == completion_of("inc"));
  }
  const auto observed = router.driver().observe();
  REQUIRE(observed);
  REQUIRE(observed->size() == 1);
  CHECK(observed->front().reverted);
  auto stale = route;
  stale.epoch = 0;
  CHECK(router.driver().apply(stale).error().code == driftgate::schema::ErrorCode::conflict);
  router.apply(route);
  TestClient client(router.port());
  CHECK(client.post(tiny_request()).body == completion_of("cand"));
}

TEST_CASE("after a restart the driver gives the windows of the next process from the first, whenever it is asked") {
  TestRouter router(route_to("http://127.0.0.1:9"), [](RouterOptions& options) { options.window_ms = 200; });
  const auto first = router.windows_until([](const auto& all) { return !all.empty(); }).front();
  router.restart();
  // Asked before the next process has closed a window, and again when it has closed more than the one before.
  const WindowPosition before{first.router_id, first.number};
  REQUIRE(router.driver().windows(before, 16));
  CHECK(eventually([&] { return router.driver().windows(before, 16)->size() > 1; }));
  const auto next = router.driver().windows(before, 16)->front();
  CHECK(next.number == 1);
  CHECK(router.driver().windows({next.router_id, 1}, 16)->front().number == 2);
}

TEST_CASE("many clients at once are all served and counted once each, in order") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([](ScriptedEngine::Visit& visit) {
    visit.send(visit.request().find("odd") != std::string::npos ? answer_with(500, "{}")
                                                                : answer_with(200, completion_of("cand")));
  });
  TestRouter router(route_to(incumbent.url(), candidate.url(), 5'000));
  constexpr int kClients = 8;
  constexpr int kEach = 40;
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      TestClient client(router.port());
      for (int i = 0; i < kEach; ++i) {
        const auto user = std::to_string(c) + "-" + std::to_string(i);
        const auto more = R"(,"user":")" + user + (i % 2 == 1 ? R"(","suffix":"odd")" : "\"");
        good += client.post(tiny_request(false, more)).status == 200 ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(good == kClients * kEach);
  const auto seen = router.observations(kClients * kEach);
  std::set<std::uint64_t> keys;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].order == i + 1);
    keys.insert(seen[i].key_hash);
    CHECK(seen[i].retried == (seen[i].outcome == Outcome::failed));
  }
  CHECK(keys.size() == kClients * kEach);
}
