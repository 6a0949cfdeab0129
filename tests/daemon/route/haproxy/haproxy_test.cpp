#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "daemon/route/haproxy/files.hpp"
#include "daemon/route/haproxy/runtime.hpp"
#include "daemon/route/table/bucket.hpp"
#include "tests/daemon/route/haproxy/test_planes.hpp"

#ifdef DRIFTGATE_HAPROXY

// What is particular to HAProxy in front of the router.
using namespace driftgate::route;
using driftgate::schema::ErrorCode;

namespace {

haproxy::Files files_of(HaproxyPlane& plane) {
  return haproxy::Files{plane.router().options().haproxy_dir};
}

haproxy::Runtime runtime_of(HaproxyPlane& plane) {
  return haproxy::Runtime(plane.router().options().haproxy_socket);
}

/// The value of the model's entry in HAProxy's map; "" without one.
std::string held_by(HaproxyPlane& plane) {
  const auto entries = runtime_of(plane).show_map(files_of(plane).routes());
  for (const auto& entry : entries.value_or(std::vector<haproxy::MapEntry>{})) {
    if (entry.key == "tiny") return entry.value;
  }
  return {};
}

std::string body_for(std::uint16_t port, const std::string& key) {
  TestClient client(port);
  return client.post(tiny_request(), "driftgate-key: " + key + "\r\n").body;
}

}  // namespace

TEST_CASE("HAProxy and the router place a key alike, whichever of them reads the request") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  HaproxyPlane plane;
  const auto route = route_to(incumbent.url(), candidate.url(), 5'000);
  apply_to(plane, route);
  TestClient direct(plane.port());
  TestClient router(plane.router().port());
  for (int i = 0; i < 200; ++i) {
    const auto key = "key-" + std::to_string(i);
    const bool expected = bucket_of(key, route.seed, KeyHash::text) < 5'000;
    const auto fields = "driftgate-key: " + key + "\r\n";
    CHECK((direct.post(tiny_request(), fields).body == completion_of("cand")) == expected);
    CHECK((router.post(tiny_request(), fields).body == completion_of("cand")) == expected);
  }
  std::map<std::uint64_t, int> times;
  for (const auto& seen : plane.router().observations(400)) ++times[seen.key_hash];
  for (int i = 0; i < 200; ++i)
    CHECK(times[key_hash_of("key-" + std::to_string(i), route.seed, KeyHash::text)] == 2);
}

TEST_CASE("a HAProxy that is started anew serves the incumbent at once and gets its route back") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  HaproxyPlane plane;
  apply_to(plane, route_to(incumbent.url(), candidate.url(), 10'000));
  CHECK(body_for(plane.port(), "a") == completion_of("cand"));
  SUBCASE("while the router is away: no candidate") {
    plane.haproxy().kill();
    plane.router().end();
    plane.haproxy().start();
    CHECK(body_for(plane.port(), "a") == completion_of("inc"));
    CHECK(held_by(plane).find("r|driftgate_1|") != std::string::npos);
  }
  SUBCASE("by the router, without a word from the daemon") {
    plane.restart();
    CHECK(holds_in_time([&] {
      REQUIRE(plane.router().driver().heartbeat());
      return body_for(plane.port(), "a") == completion_of("cand");
    }));
  }
}

TEST_CASE("a router that dies takes the candidate's traffic with it, and users are served") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  HaproxyPlane plane;
  apply_to(plane, route_to(incumbent.url(), candidate.url(), 10'000));
  CHECK(body_for(plane.port(), "a") == completion_of("cand"));
  plane.router().end();
  CHECK(holds_in_time([&] {
    const auto body = body_for(plane.port(), "a");
    REQUIRE((body == completion_of("inc") || body == completion_of("cand")));
    return body == completion_of("inc");
  }));
  // A router that starts again exposes nobody until the route was applied again.
  plane.router().restart();
  CHECK(holds_in_time([&] { return held_by(plane).find("r|driftgate_1|") != std::string::npos; }));
  CHECK(body_for(plane.port(), "a") == completion_of("inc"));
}

TEST_CASE("a router that has lost its routes does not overwrite newer ones") {
  ScriptedEngine incumbent(serve_completions("inc"));
  HaproxyPlane plane;
  auto route = route_to(incumbent.url());
  route.epoch = 7;
  apply_to(plane, route);
  plane.router().end();
  std::filesystem::remove(plane.router().options().state_path);
  plane.router().restart();
  auto old = route_to("http://127.0.0.1:9");
  old.epoch = 6;
  old.revision = 1;
  driftgate::schema::Result<void> refused;
  CHECK(holds_in_time([&] {
    refused = plane.router().driver().apply(old);
    return !refused && refused.error().code == ErrorCode::conflict;
  }));
  CHECK(held_by(plane).starts_with("7."));
  CHECK(body_for(plane.port(), "a") == completion_of("inc"));
  const auto observed = plane.router().driver().observe();
  REQUIRE(observed);
  CHECK(observed->empty());
}

TEST_CASE("two routers do not steer one HAProxy") {
  HaproxyPlane plane;
  auto options = plane.router().options();
  options.control_path += "-other";
  options.listen = "127.0.0.1:0";
  options.port_file.clear();
  const auto second = Router::start(options);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::conflict);
}

TEST_CASE("what somebody else writes into HAProxy's map is put right") {
  ScriptedEngine incumbent(serve_completions("inc"));
  HaproxyPlane plane;
  apply_to(plane, route_to(incumbent.url()));
  const auto held = held_by(plane);
  const auto file = files_of(plane).routes();
  REQUIRE(runtime_of(plane).replace_map(file, {}));
  CHECK(holds_in_time([&] { return held_by(plane) == held; }));
}

TEST_CASE("an engine that a route stops naming is taken out of HAProxy once it is idle") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  HaproxyPlane plane;
  apply_to(plane, route_to(incumbent.url(), candidate.url(), 10'000));
  CHECK(body_for(plane.port(), "a") == completion_of("cand"));
  apply_to(plane, route_to(incumbent.url()));
  const auto servers = [&] { return runtime_of(plane).ask("show servers state driftgate_1").value_or(""); };
  CHECK(holds_in_time([&] { return servers().find(" v2 ") == std::string::npos; }));
  CHECK(servers().find(" v1 ") != std::string::npos);
  // The candidate becomes the incumbent without a request that fails.
  auto promoted = route_to(candidate.url());
  promoted.incumbent.version = "v2";
  apply_to(plane, promoted);
  CHECK(body_for(plane.port(), "a") == completion_of("cand"));
}

TEST_CASE("requests that are no completions are the router's, and one that comes back is refused") {
  ScriptedEngine incumbent(serve_completions("inc"));
  HaproxyPlane plane;
  apply_to(plane, route_to(incumbent.url()));
  TestClient client(plane.port());
  CHECK(client.get("/v1/models").body.find("\"tiny\"") != std::string::npos);
  CHECK(client.get("/nowhere").status == 404);
  CHECK(client.post("{}").status == 400);
  CHECK(client.post(R"({"model":"other","prompt":"x"})").status == 404);
  REQUIRE(client.post(tiny_request()).status == 200);
  const auto passed_on = incumbent.seen().back();
  const auto begin = passed_on.find("driftgate-haproxy-");
  REQUIRE(begin != std::string::npos);
  const auto mark = passed_on.substr(begin, passed_on.find_first_of("\r\n", begin) - begin);
  TestClient looping(plane.port());
  CHECK(looping.post(tiny_request(), "Via: 1.1 " + mark + "\r\n").status == 508);
  // Headers that only HAProxy may set are taken from clients, and no engine sees any of ours.
  client.post(tiny_request(), "driftgate-plane: x\r\ndriftgate-key: k\r\n");
  CHECK(incumbent.seen().back().find("driftgate-p") == std::string::npos);
  CHECK(incumbent.seen().back().find("driftgate-key") == std::string::npos);
}

TEST_CASE("lines of HAProxy's log that are lost break the measurement") {
  ScriptedEngine incumbent(serve_completions("inc"));
  HaproxyPlane plane([](RouterOptions& options) { options.request_deadline_ms = 1'000; });
  apply_to(plane, route_to(incumbent.url()));
  CHECK(body_for(plane.port(), "a") == completion_of("inc"));
  CHECK(plane.router().observations(1).size() == 1);
  REQUIRE(::unlink(plane.router().options().haproxy_log.c_str()) == 0);
  for (int i = 0; i < 3; ++i) CHECK(body_for(plane.port(), "a") == completion_of("inc"));
  const auto windows = plane.router().windows_until([](const std::vector<Window>& all) {
    std::uint64_t dropped = 0;
    for (const auto& window : all) dropped += window.dropped;
    return dropped >= 3;
  });
  std::uint64_t dropped = 0;
  for (const auto& window : windows) dropped += window.dropped;
  CHECK(dropped == 3);
}

TEST_CASE("a route that HAProxy cannot hold is refused with the reason") {
  HaproxyPlane plane;
  auto route = route_to("http://127.0.0.1:9");
  route.incumbent.version = "no such name";
  driftgate::schema::Result<void> refused;
  CHECK(holds_in_time([&] {
    refused = plane.router().driver().apply(route);
    return !refused && refused.error().code == ErrorCode::unsupported;
  }));
  CHECK(refused.error().message.find("no such name") != std::string::npos);
}

#endif
