#include "daemon/route/gateway/steering.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "tests/daemon/route/gateway/cluster.hpp"
#include "tests/daemon/route/haproxy/test_planes.hpp"
#include "tests/daemon/route/test_router.hpp"

// What is particular to a Gateway in front of the router. The Kubernetes API is the stand-in of
// kube_server.cpp, or a real one (tests/daemon/route/gateway/cluster.hpp); what a controller says is said by
// the test.
using namespace driftgate::route;
using namespace driftgate::route::gateway;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr const char* kFirst = "http://v1.models.svc:8000";
constexpr const char* kSecond = "http://v2.models.svc:8000";

/// A router that steers a Gateway. Its engines are never asked.
struct Steered {
  explicit Steered(const Cluster& cluster, std::uint32_t watched_bp = 10'000)
      : router([&](RouterOptions& options) {
          options.lease_ms = 3'600'000;
          cluster.set_options(options);
          options.gateway_watched_bp = watched_bp;
        }) {}

  /// Applies the route under the next revision.
  driftgate::schema::Result<void> apply(ModelRoute route) {
    route.revision = ++revision;
    last = route;
    return router.driver().apply(route);
  }
  bool holds_last() {
    const auto observed = router.driver().observe();
    return observed && observed->size() == 1 && observed->front().route == last;
  }
  std::string fault() { return router.driver().info().value().plane_fault; }

  TestRouter router;
  std::uint64_t revision = 0;
  ModelRoute last;
};

std::string fence_text(const json& object) {
  return object["metadata"]["annotations"]["driftgate/route"].get<std::string>();
}

json first_rule(const json& object) {
  return object["spec"]["rules"][0]["backendRefs"];
}

}  // namespace

TEST_CASE("a route counts as applied once every Gateway has accepted it") {
  Cluster cluster;
  Steered steered(cluster);
  const auto early = steered.apply(route_to(kFirst));
  REQUIRE_FALSE(early);
  CHECK(early.error().code == ErrorCode::deadline_exceeded);
  CHECK_FALSE(steered.holds_last());
  cluster.user().accept();
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
  CHECK(steered.router.driver().apply(steered.last));
  CHECK(steered.fault().empty());
  CHECK(steered.router.driver().info()->plane == "gateway_api");
}

TEST_CASE("an answer to an earlier generation is none") {
  Cluster cluster;
  Steered steered(cluster, 1'000);
  (void)steered.apply(route_to(kFirst));
  cluster.user().accept();
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
  CHECK_FALSE(steered.apply(route_to(kSecond)));
  CHECK(cluster.user().only()["status"]["parents"].size() == 2);  // of the first one still
  CHECK_FALSE(steered.holds_last());
  cluster.user().accept();
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
}

TEST_CASE("a revision that changes no rule is in force as soon as it is written") {
  Cluster cluster;
  Steered steered(cluster);
  auto route = route_to(kFirst, kSecond);
  (void)steered.apply(route);
  cluster.user().accept();
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
  route.candidate_bp = 500;
  CHECK(holds_in_time([&] { return steered.apply(route).has_value() && steered.holds_last(); }));
  CHECK(fence_text(cluster.user().only()) == to_string(fence_of(steered.last)));
}

TEST_CASE("a Gateway that refuses says why") {
  Cluster cluster;
  Steered steered(cluster);
  (void)steered.apply(route_to(kFirst));
  REQUIRE(holds_in_time([&] { return cluster.user().list().size() == 1; }));
  cluster.user().say(cluster.user().only(), "True", "False");
  CHECK(holds_in_time(
      [&] { return steered.fault().find("ResolvedRefs is False (NotThisOne)") != std::string::npos; }));
  const auto refused = steered.router.driver().apply(steered.last);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK_FALSE(steered.holds_last());
}

TEST_CASE("during a promotion everything passes the router, and afterwards only the watched share") {
  Cluster cluster;
  const Controller controller(cluster);
  Steered steered(cluster, 2'500);
  const auto applied = [&](const ModelRoute& route) {
    return holds_in_time([&] { return steered.apply(route).has_value() && steered.holds_last(); });
  };
  REQUIRE(applied(route_to(kFirst, kSecond, 500)));
  auto backends = first_rule(cluster.user().only());
  REQUIRE(backends.size() == 1);
  CHECK(backends[0]["name"] == "driftgate-router");
  REQUIRE(applied(route_to(kSecond)));
  backends = first_rule(cluster.user().only());
  REQUIRE(backends.size() == 2);
  CHECK(backends[0]["name"] == "driftgate-router");
  CHECK(backends[0]["weight"] == 2'500);
  CHECK(backends[1]["name"] == "v2");
  CHECK(backends[1]["weight"] == 7'500);
}

TEST_CASE("once an engine asks for a key, nothing goes past the router to it") {
  Cluster cluster;
  const Controller controller(cluster);
  Steered steered(cluster, 2'500);
  driftgate::base::EngineAccess access;
  steered.router.driver().ask_access_of(
      [&](const std::string&) -> driftgate::schema::Result<driftgate::base::EngineAccess> { return access; });
  REQUIRE(holds_in_time([&] { return steered.apply(route_to(kFirst)).has_value(); }));
  CHECK(first_rule(cluster.user().only()).size() == 2);
  access.key_file = "/keys/v1";  // it need not be readable: no request comes
  REQUIRE(holds_in_time([&] { return steered.router.driver().apply(steered.last).has_value(); }));
  CHECK(first_rule(cluster.user().only()).size() == 1);
}

TEST_CASE("a router with an older epoch changes nothing") {
  Cluster cluster;
  const Controller controller(cluster);
  auto route = route_to(kFirst);
  route.epoch = 9;
  {
    Steered steered(cluster);
    REQUIRE(holds_in_time([&] { return steered.apply(route).has_value(); }));
  }
  const auto before = cluster.user().only();
  Steered former(cluster);
  auto old = route_to(kSecond);
  old.epoch = 8;
  former.revision = 1'000;
  const auto refused = former.apply(old);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("epoch 9") != std::string::npos);
  CHECK_FALSE(former.holds_last());
  CHECK(cluster.user().only()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]);
  old.epoch = 10;
  CHECK(holds_in_time([&] { return former.apply(old).has_value(); }));
  CHECK(fence_text(cluster.user().only()).starts_with("10."));
}

TEST_CASE("what somebody else wrote is told and not written over, and what he deleted is made again") {
  Cluster cluster;
  const Controller controller(cluster);
  Steered steered(cluster);
  REQUIRE(holds_in_time([&] { return steered.apply(route_to(kFirst)).has_value(); }));
  auto object = cluster.user().only();
  auto rules = object["spec"]["rules"];
  rules[0]["backendRefs"][0]["weight"] = 77;
  const auto name = object["metadata"]["name"].get<std::string>();
  cluster.user().merge(name, {{"spec", {{"rules", rules}}}}, "kubectl-edit");
  CHECK(holds_in_time([&] { return steered.fault().find("kubectl-edit") != std::string::npos; }));
  CHECK_FALSE(steered.holds_last());
  CHECK(first_rule(cluster.user().only())[0]["weight"] == 77);
  cluster.user().remove(name);
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
  CHECK(steered.fault().empty());
  CHECK(first_rule(cluster.user().only())[0]["weight"] == 10'000);
}

TEST_CASE("an HTTPRoute of somebody else with the same name is left alone") {
  Cluster cluster;
  const auto target = target_of(cluster.options());
  REQUIRE(target);
  auto foreign = http_route(*target, route_to(kSecond));
  const auto name = foreign["metadata"]["name"].get<std::string>();
  foreign["metadata"].erase("labels");
  foreign["metadata"].erase("annotations");
  cluster.user().create(foreign, "helm");
  Steered steered(cluster);
  const auto refused = steered.apply(route_to(kFirst));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::already_exists);
  CHECK(refused.error().message.find(name) != std::string::npos);
  cluster.user().remove(name);
  cluster.user().accept();
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
}

TEST_CASE("users are served while the Kubernetes API does not answer, and changes wait for it") {
  Cluster cluster;
  if (cluster.stand_in() == nullptr) return;  // a real one cannot be told to fail
  const Controller controller(cluster);
  ScriptedEngine engine(serve_completions("inc"));
  Steered steered(cluster);
  REQUIRE(holds_in_time([&] { return steered.apply(route_to(engine.url())).has_value(); }));
  cluster.stand_in()->set_token("nobody's");
  CHECK(holds_in_time([&] { return steered.fault().find("answers 401") != std::string::npos; }));
  TestClient client(steered.router.port());
  CHECK(client.post(tiny_request()).body == completion_of("inc"));
  // What was seen last still counts: the candidate depends on the router alone.
  CHECK(steered.holds_last());
  const auto refused = steered.apply(route_to(kFirst));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unauthenticated);
  CHECK_FALSE(steered.holds_last());
  cluster.stand_in()->set_token("first-token");
  CHECK(holds_in_time([&] { return steered.holds_last(); }));
}

TEST_CASE("a request cannot say that the Gateway has counted it") {
  Cluster cluster;
  const Controller controller(cluster);
  ScriptedEngine engine(serve_completions("inc"));
  Steered steered(cluster);
  REQUIRE(holds_in_time([&] { return steered.apply(route_to(engine.url())).has_value(); }));
  TestClient client(steered.router.port());
  CHECK(client.post(tiny_request(), "driftgate-plane: x\r\n").body == completion_of("inc"));
  CHECK(steered.router.observations(1).size() == 1);
}
