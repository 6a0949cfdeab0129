#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <set>

#include "daemon/route/table/bucket.hpp"
#include "tests/daemon/route/haproxy/test_planes.hpp"

// What must hold on every data plane (docs/data_planes.md, "What is tested on every data plane").
using namespace driftgate::route;
using driftgate::schema::ErrorCode;

#ifdef DRIFTGATE_HAPROXY
#define DRIFTGATE_PLANES EmbeddedPlane, GatewayPlane, HaproxyPlane
#else
#define DRIFTGATE_PLANES EmbeddedPlane, GatewayPlane
#endif

TYPE_TO_STRING(EmbeddedPlane);
TYPE_TO_STRING(GatewayPlane);
#ifdef DRIFTGATE_HAPROXY
TYPE_TO_STRING(HaproxyPlane);
#endif

namespace {

constexpr int kKeys = 20'000;
constexpr double kChiSquareLimit = 23.9;  // one degree of freedom, p = 1e-6; keys and seed are fixed

std::string keyed(const std::string& key) {
  return "driftgate-key: " + key + "\r\n";
}

/// The keys that the candidate serves.
std::set<int> candidates_of(std::uint16_t port, int keys) {
  TestClient client(port);
  std::set<int> served;
  for (int i = 0; i < keys; ++i) {
    const auto answer = client.post(tiny_request(), keyed("user-" + std::to_string(i)));
    REQUIRE(answer.status == 200);
    if (answer.body == completion_of("cand")) served.insert(i);
  }
  return served;
}

double chi_square(double hits, double share) {
  const double expected = kKeys * share;
  const double apart = hits - expected;
  return apart * apart / expected + apart * apart / (kKeys - expected);
}

}  // namespace

TEST_CASE_TEMPLATE("the split fits the share, and nobody leaves the candidate as it grows", Plane,
                   DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  Plane plane;
  std::set<int> before;
  for (const std::uint32_t share : {500u, 2'000u, 5'000u}) {
    apply_to(plane, route_to(incumbent.url(), candidate.url(), share));
    const auto served = candidates_of(plane.port(), kKeys);
    CAPTURE(share);
    CAPTURE(served.size());
    CHECK(chi_square(static_cast<double>(served.size()), share / 10'000.0) < kChiSquareLimit);
    CHECK(std::includes(served.begin(), served.end(), before.begin(), before.end()));
    before = served;
  }
}

TEST_CASE_TEMPLATE("a change in mid-stream breaks no stream", Plane, DRIFTGATE_PLANES) {
  std::promise<void> changed;
  const auto go = changed.get_future().share();
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([go](ScriptedEngine::Visit& visit) {
    visit.send(stream_head() + chunk(token_event("a")));
    go.wait();
    visit.send(chunk(token_event("b")) + chunk(kDoneEvent) + kLastChunk);
  });
  Plane plane;
  apply_to(plane, route_to(incumbent.url(), candidate.url(), 10'000));
  TestClient client(plane.port());
  client.send(post_text(tiny_request(true)));
  REQUIRE(client.read_until("data:"));
  apply_to(plane, route_to(incumbent.url()));
  TestClient other(plane.port());
  CHECK(other.post(tiny_request()).body == completion_of("inc"));
  changed.set_value();
  const auto answer = client.read_answer();
  CHECK(answer.complete);
  CHECK(answer.body == token_event("a") + token_event("b") + kDoneEvent);
}

TEST_CASE_TEMPLATE("bodies of ten megabytes arrive whole", Plane, DRIFTGATE_PLANES) {
  constexpr std::size_t kBytes = 10'000'000;
  ScriptedEngine incumbent(serve_completions("inc"));
  Plane plane([](RouterOptions& options) {
    options.max_body_bytes = 16u << 20;
    options.body_memory_bytes = 64u << 20;
  });
  apply_to(plane, route_to(incumbent.url()));
  TestClient client(plane.port());
  const auto body = R"({"model":"tiny","prompt":")" + std::string(kBytes, 'x') + "\"}";
  for (const char* fields : {"", "driftgate-model: tiny\r\ndriftgate-key: k\r\ndriftgate-slice: a=b\r\n"}) {
    CAPTURE(fields);
    CHECK(client.post(body, fields).body == completion_of("inc"));
    CHECK(incumbent.seen().back().ends_with(body));
  }
}

TEST_CASE_TEMPLATE("an engine that gets copies and never answers, or is dead, delays nobody", Plane,
                   DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine silent([](ScriptedEngine::Visit& visit) { visit.wait_for_close(); });
  Plane plane;
  auto route = route_to(incumbent.url(), silent.url());
  route.stage_key = "p1/shadow-runtime/1";
  route.mirror_bp = 10'000;
  route.mirror_token_budget = 1'000'000;
  apply_to(plane, route);
  TestClient client(plane.port());
  // Each answer comes although the copies of all before it are unanswered.
  for (int i = 0; i < 20; ++i) CHECK(client.post(tiny_request()).body == completion_of("inc"));
  CHECK(holds_in_time([&] { return silent.requests() > 0; }));
  route.candidate->url = "http://127.0.0.1:9";
  apply_to(plane, route);
  for (int i = 0; i < 20; ++i) CHECK(client.post(tiny_request()).body == completion_of("inc"));
}

TEST_CASE_TEMPLATE("an old epoch is refused, and the newer route stays", Plane, DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  Plane plane;
  auto route = route_to(incumbent.url());
  route.epoch = 5;
  apply_to(plane, route);
  auto old = route_to("http://127.0.0.1:9");
  old.epoch = 4;
  old.revision = 1'000'000;
  const auto refused = plane.router().driver().apply(old);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  const auto observed = plane.router().driver().observe();
  REQUIRE(observed);
  REQUIRE(observed->size() == 1);
  CHECK(observed->front().route.epoch == 5);
  TestClient client(plane.port());
  CHECK(client.post(tiny_request()).body == completion_of("inc"));
}

TEST_CASE_TEMPLATE("a restart keeps the route", Plane, DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  Plane plane;
  const auto route = route_to(incumbent.url(), candidate.url(), 5'000);
  apply_to(plane, route);
  const auto before = candidates_of(plane.port(), 200);
  CHECK_FALSE(before.empty());
  plane.restart();
  // Everybody is served at once, and the candidate gets nobody whom it did not serve before.
  const auto at_once = candidates_of(plane.port(), 200);
  CHECK(std::includes(before.begin(), before.end(), at_once.begin(), at_once.end()));
  apply_to(plane, route);
  CHECK(candidates_of(plane.port(), 200) == before);
}

TEST_CASE_TEMPLATE("without heartbeats the candidate loses its traffic, and that is what is observed", Plane,
                   DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  Plane plane([](RouterOptions& options) { options.lease_ms = 3'000; });
  apply_to(plane, route_to(incumbent.url(), candidate.url(), 10'000));
  CHECK(candidates_of(plane.port(), 20).size() == 20);
  CHECK(holds_in_time([&] {
    const auto observed = plane.router().driver().observe();
    return observed && observed->size() == 1 && observed->front().reverted;
  }));
  CHECK(candidates_of(plane.port(), 20).empty());
}

TEST_CASE_TEMPLATE("slices, pins and the fallback", Plane, DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  ScriptedEngine fallback(serve_completions("fall"));
  Plane plane;
  auto route = route_to(incumbent.url(), candidate.url(), 0);
  route.fallback = Arm{"v0", "f32", fallback.url()};
  route.slices = {{{{"domain", "my code"}, {"language", "de"}}, 10'000, false},
                  {{{"language", "de"}}, 0, true}};
  route.pins = {{"ann lee", "candidate"}, {"bob", "incumbent"}};
  apply_to(plane, route);
  TestClient client(plane.port());
  const auto served = [&](const std::string& fields) { return client.post(tiny_request(), fields).body; };
  CHECK(served(keyed("x")) == completion_of("inc"));
  CHECK(served("driftgate-slice: language=de\r\n") == completion_of("fall"));
  CHECK(served("driftgate-slice: domain=my code ; language = de\r\n") == completion_of("cand"));
  CHECK(served("driftgate-slice: language=en\r\n") == completion_of("inc"));
  CHECK(served(keyed("ann lee")) == completion_of("cand"));
  CHECK(served(keyed("bob") + "driftgate-slice: language=de\r\n") == completion_of("inc"));
  CHECK(client.post(tiny_request(false, R"(,"metadata":{"language":"de"})")).body == completion_of("fall"));
  CHECK(client.post(tiny_request(false, R"(,"user":"ann lee")")).body == completion_of("cand"));
  CHECK(client.post(tiny_request(), "driftgate-slice: no slice\r\n").status == 400);
  route.all_to_fallback = true;
  apply_to(plane, route);
  CHECK(served(keyed("ann lee")) == completion_of("fall"));
}

TEST_CASE_TEMPLATE("telemetry has every request once, with its arm, key, slice, share and outcome", Plane,
                   DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate([](ScriptedEngine::Visit& visit) { visit.send(answer_with(500, "{}")); });
  Plane plane;
  auto route = route_to(incumbent.url(), candidate.url(), 5'000);
  apply_to(plane, route);
  TestClient client(plane.port());
  std::map<std::uint64_t, int> keys;
  for (int i = 0; i < 40; ++i) {
    // What the candidate fails before its first byte, the incumbent answers.
    const auto key = "user-" + std::to_string(i % 20);
    CHECK(client.post(tiny_request(), keyed(key) + "driftgate-slice: b=c ;a=b\r\n").body ==
          completion_of("inc"));
  }
  const auto seen = plane.router().observations(40);
  REQUIRE(seen.size() == 40);
  std::size_t failed = 0;
  for (const auto& one : seen) {
    ++keys[one.key_hash];
    CHECK(one.slice == "a=b;b=c");
    CHECK(one.candidate_bp == 5'000);
    CHECK(one.candidate == (one.outcome == Outcome::failed));
    CHECK(one.candidate == one.retried);
    CHECK(one.total_ms > 0);
    failed += one.candidate ? 1 : 0;
  }
  CHECK(static_cast<int>(failed) == candidate.requests());
  CHECK(failed > 0);
  CHECK(failed < 40);
  CHECK(keys.size() == 20);
  for (const auto& [key, times] : keys) CHECK(times == 2);
}

TEST_CASE_TEMPLATE("mirrored requests are kept with both answers", Plane, DRIFTGATE_PLANES) {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  Plane plane;
  auto route = route_to(incumbent.url(), candidate.url());
  route.stage_key = "p1/shadow-runtime/1";
  route.mirror_bp = 5'000;
  route.mirror_token_budget = 1'000'000;
  apply_to(plane, route);
  TestClient client(plane.port());
  for (int i = 0; i < 100; ++i)
    CHECK(client.post(tiny_request(), keyed("user-" + std::to_string(i))).body == completion_of("inc"));
  const auto seen = plane.router().observations(100);
  CHECK(seen.size() == 100);
  for (const auto& one : seen) CHECK_FALSE(one.candidate);
  const auto mirrored = [&] {
    std::uint64_t sum = 0;
    for (const auto& window : plane.router().windows_until([](const auto&) { return true; }))
      sum += window.mirrored;
    return sum;
  };
  CHECK(holds_in_time([&] {
    const auto asked = static_cast<std::uint64_t>(candidate.requests());
    return asked > 0 && mirrored() == asked;
  }));
  // Half of the keys, within five standard deviations.
  CHECK(std::abs(candidate.requests() - 50) < 25);
  CHECK(plane.router().driver().spool_path(route.stage_key));
}
