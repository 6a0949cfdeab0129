#include "daemon/route/gateway/http_route.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "daemon/route/table/decide.hpp"
#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;
using namespace driftgate::route::gateway;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr const char* kIncumbent = "http://v1.models.svc:8000";
constexpr const char* kFallback = "http://v0.models.svc.cluster.local:8000";

RouterOptions sample_options() {
  RouterOptions options;
  options.gateway_namespace = "serving";
  options.gateway_name = "prod";
  options.gateway_parents = "public, edge/inner/https";
  options.gateway_hostnames = "llm.example.org";
  options.gateway_router = "driftgate-router:8080";
  options.gateway_watched_bp = 1'500;
  return options;
}

Target sample_target() {
  const auto target = target_of(sample_options());
  REQUIRE(target);
  return *target;
}

/// A route at rest, whose engines are Services.
ModelRoute route_at_rest() {
  auto route = sample_route();
  route.candidate.reset();
  route.fallback->url = kFallback;
  route.incumbent.url = kIncumbent;
  route.epoch = 7;
  route.revision = 3;
  return route;
}

std::string refusal(const RouterOptions& options) {
  const auto target = target_of(options);
  REQUIRE_FALSE(target);
  CHECK(target.error().code == ErrorCode::invalid_argument);
  return target.error().message;
}

/// Weights by "NAME.NAMESPACE:PORT".
json weights_of(const json& rule) {
  json weights = json::object();
  for (const auto& backend : rule["backendRefs"]) {
    CHECK(backend["kind"] == "Service");
    CHECK(backend["group"] == "");
    const auto name = backend["name"].get<std::string>() + "." + backend["namespace"].get<std::string>() +
                      ":" + std::to_string(backend["port"].get<int>());
    weights[name] = backend["weight"];
  }
  return weights;
}

/// The backends of a completion with that header `driftgate-slice`, by the precedence of the Gateway API: of
/// the matches that hold the one with most headers, then the first.
json chosen(const json& object, const std::string& slice) {
  const json* best = nullptr;
  std::size_t headers = 0;
  for (const auto& rule : object["spec"]["rules"]) {
    for (const auto& match : rule["matches"]) {
      if (match["path"]["value"] != "/v1/completions") continue;
      bool holds = true;
      for (const auto& header : match["headers"]) {
        CHECK(header["type"] == "Exact");
        const std::string sent = header["name"] == "driftgate-model" ? "tiny" : slice;
        holds = holds && header["value"] == sent;
      }
      if (!holds || (best != nullptr && match["headers"].size() <= headers)) continue;
      best = &rule;
      headers = match["headers"].size();
    }
  }
  REQUIRE(best != nullptr);
  return weights_of(*best);
}

json accepted_by(const json& parent, int generation, const char* accepted = "True",
                 const char* resolved = "True") {
  const auto said = [&](const char* type, const char* status) {
    return json{{"type", type},
                {"status", status},
                {"reason", "SomeReason"},
                {"message", "some message"},
                {"observedGeneration", generation}};
  };
  auto conditions = json::array();
  conditions.push_back(said("Accepted", accepted));
  conditions.push_back(said("ResolvedRefs", resolved));
  return {{"parentRef", parent}, {"controllerName", "example.org/c"}, {"conditions", std::move(conditions)}};
}

/// An HTTPRoute as it is read back: of generation 4, and with what was said of it.
json read_back(std::initializer_list<json> said) {
  auto object = http_route(sample_target(), route_at_rest());
  object["metadata"]["generation"] = 4;
  object["status"]["parents"] = json::array();
  for (const auto& one : said) object["status"]["parents"].push_back(one);
  return object;
}

const json kPublic = {{"name", "public"}};
const json kInner = {{"name", "inner"}, {"namespace", "edge"}, {"sectionName", "https"}};

}  // namespace

TEST_CASE("engines whose URL names a Service can be reached past the router") {
  CHECK(service_of("http://v1.models.svc:8000") == Service{"v1", "models", 8000});
  CHECK(service_of("http://v1.models.svc.cluster.local:80") == Service{"v1", "models", 80});
  CHECK(service_of("http://v1.models.svc:8000/") == Service{"v1", "models", 8000});
  for (const char* url :
       {"http://10.0.0.1:8000", "http://v1:8000", "http://v1.models:8000",
        "http://v1.models.example.org:8000", "https://v1.models.svc:443", "http://v1.models.svc",
        "http://v1.models.svc:8000/base", "http://V1.models.svc:8000", "http://[::1]:80", ""}) {
    CAPTURE(url);
    CHECK_FALSE(service_of(url));
  }
}

TEST_CASE("what the HTTPRoutes have in common is read from the options, or refused by the setting's name") {
  const auto target = sample_target();
  CHECK(target.router == Service{"driftgate-router", "serving", 8080});
  REQUIRE(target.parents.size() == 2);
  CHECK(target.parents[0] == Parent{"serving", "public", ""});
  CHECK(target.parents[1] == Parent{"edge", "inner", "https"});
  CHECK(target.watched_bp == 1'500);
  auto options = sample_options();
  options.gateway_parents = "";
  CHECK(refusal(options).find("gateway.parents") != std::string::npos);
  options = sample_options();
  options.gateway_parents = "a/b/c/d";
  CHECK(refusal(options).find("NAMESPACE/GATEWAY/LISTENER") != std::string::npos);
  options = sample_options();
  options.gateway_router = "driftgate-router";
  CHECK(refusal(options).find("gateway.router_service") != std::string::npos);
  options = sample_options();
  options.gateway_hostnames = "LLM.example.org";
  CHECK(refusal(options).find("gateway.hostnames") != std::string::npos);
  options = sample_options();
  options.gateway_name = "a.b";
  CHECK(refusal(options).find("gateway.name") != std::string::npos);
  options = sample_options();
  options.gateway_namespace = "";
  CHECK(refusal(options).find("gateway.namespace") != std::string::npos);
}

TEST_CASE("at rest the watched share passes the router and the rest goes straight to the engine") {
  const auto object = http_route(sample_target(), route_at_rest());
  CHECK(object["apiVersion"] == "gateway.networking.k8s.io/v1");
  CHECK(object["kind"] == "HTTPRoute");
  CHECK(object["metadata"]["namespace"] == "serving");
  CHECK(object["metadata"]["labels"][kInstallationLabel] == "prod");
  CHECK(object["spec"]["hostnames"] == json::array({"llm.example.org"}));
  CHECK(object["spec"]["parentRefs"].size() == 2);
  CHECK(object["spec"]["rules"].size() == 1);
  CHECK(object["spec"]["rules"][0]["matches"].size() == 2);
  CHECK(chosen(object, "") == json{{"driftgate-router.serving:8080", 1'500}, {"v1.models:8000", 8'500}});
}

TEST_CASE("with a candidate everything passes the router, and no HTTPRoute names the candidate") {
  auto route = route_at_rest();
  route.candidate = Arm{"v2", "int8", "http://v2.models.svc:8000"};
  route.candidate_bp = 500;
  route.slices = {{{{"language", "de"}}, 0, true}};
  const auto object = http_route(sample_target(), route);
  CHECK(object["spec"]["rules"].size() == 1);
  const json router = {{"driftgate-router.serving:8080", 10'000}};
  CHECK(chosen(object, "") == router);
  CHECK(chosen(object, "language=de") == router);
  CHECK(object.dump().find("v2") == std::string::npos);
}

TEST_CASE("an engine that is no Service is reached through the router") {
  auto route = route_at_rest();
  route.incumbent.url = "http://10.0.0.1:8000";
  CHECK(chosen(http_route(sample_target(), route), "") == json{{"driftgate-router.serving:8080", 10'000}});
}

TEST_CASE("an engine that asks for a key is reached through the router, which shows it") {
  const json router = {{"driftgate-router.serving:8080", 10'000}};
  AccessByUrl access;
  access[kIncumbent].key_file = "/keys/v1";
  auto route = route_at_rest();
  CHECK(chosen(http_route(sample_target(), route, access), "") == router);
  route.all_to_fallback = true;
  CHECK(chosen(http_route(sample_target(), route, access), "") != router);
  access[kFallback].key_file = "/keys/v0";
  CHECK(chosen(http_route(sample_target(), route, access), "") == router);
  route.all_to_fallback = false;
  route.slices = {{{{"language", "de"}}, 0, true}};
  CHECK(chosen(http_route(sample_target(), route, access), "language=de") == router);
}

TEST_CASE("a share of nothing or of everything leaves the other backend out") {
  auto target = sample_target();
  target.watched_bp = 0;
  CHECK(chosen(http_route(target, route_at_rest()), "") == json{{"v1.models:8000", 10'000}});
  target.watched_bp = 10'000;
  CHECK(chosen(http_route(target, route_at_rest()), "") == json{{"driftgate-router.serving:8080", 10'000}});
}

TEST_CASE("all to the fallback is all to its Service") {
  auto route = route_at_rest();
  route.all_to_fallback = true;
  CHECK(chosen(http_route(sample_target(), route), "") ==
        json{{"driftgate-router.serving:8080", 1'500}, {"v0.models:8000", 8'500}});
}

TEST_CASE("a slice of the fallback goes there by its header, and what may be a slice passes the router") {
  auto route = route_at_rest();
  route.slices = {{{{"language", "de"}, {"domain", "my code"}}, 0, false}, {{{"language", "de"}}, 0, true}};
  const auto object = http_route(sample_target(), route);
  const json router = {{"driftgate-router.serving:8080", 10'000}};
  CHECK(chosen(object, "language=de") ==
        json{{"driftgate-router.serving:8080", 1'500}, {"v0.models:8000", 8'500}});
  CHECK(chosen(object, "domain=my code;language=de") == router);
  CHECK(chosen(object, "language=fr") == router);
  CHECK(chosen(object, "") == router);
  route.pins = {{"ann", "incumbent"}};
  CHECK(chosen(http_route(sample_target(), route), "language=de") == router);
}

TEST_CASE("whatever goes past the router goes where the router would have sent it") {
  std::mt19937 random(7);
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  const char* const names[] = {"a", "b", "c"};
  const char* const values[] = {"x", "y"};
  const auto attributes = [&] {
    SliceAttributes slice;
    for (const char* name : names) {
      if (below(2) == 0) slice[name] = values[below(2)];
    }
    return slice;
  };
  int past_the_router = 0;
  for (int round = 0; round < 3'000; ++round) {
    auto route = route_at_rest();
    if (below(4) == 0) route.fallback->url = "http://10.0.0.9:8000";
    for (unsigned i = below(20); i > 0; --i) {
      auto where = attributes();
      if (where.empty()) where["a"] = "x";
      route.slices.push_back({where, 0, below(2) == 0});
    }
    route.all_to_fallback = below(8) == 0;
    const auto object = http_route(sample_target(), route);
    REQUIRE(object["spec"]["rules"].size() <= 16);
    const auto slice = attributes();
    const auto decision = decide(route, "some key", slice);
    const auto expected = service_of(decision.arm->url);
    const auto backends = chosen(object, canonical_slice(slice));
    for (const auto& [name, weight] : backends.items()) {
      if (name.starts_with("driftgate-router")) continue;
      ++past_the_router;
      REQUIRE(expected);
      CHECK(name == expected->name + "." + expected->space + ":8000");
    }
  }
  CHECK(past_the_router > 500);
}

TEST_CASE("names of HTTPRoutes are legal, and those of different models differ") {
  const auto target = sample_target();
  const auto name = object_name(target, "Org/Model_7B.v2");
  CHECK(name.starts_with("prod-org-model-7b-v2-"));
  CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
  CHECK(object_name(target, "org/model-7b.v2") != object_name(target, "Org/Model_7B.v2"));
  CHECK(object_name(target, std::string(256, 'x')).size() < 200);
}

TEST_CASE("the fence is the route's epoch and revision") {
  auto object = http_route(sample_target(), route_at_rest());
  REQUIRE(fence_in(object));
  CHECK(*fence_in(object) == Fence{7, 3});
  CHECK(Fence{8, 1} > Fence{7, 30});
  object["metadata"]["annotations"].erase("driftgate/route");
  CHECK(*fence_in(object) == Fence{});
  for (const char* text : {"", "7", "7.", ".3", "7.3x", "7.-3", "99999999999999999999.1"}) {
    object["metadata"]["annotations"]["driftgate/route"] = text;
    CAPTURE(text);
    REQUIRE_FALSE(fence_in(object));
    CHECK(fence_in(object).error().code == ErrorCode::corrupt);
  }
}

TEST_CASE("what the API server fills in is no difference, and whatever else is one") {
  const auto wanted = http_route(sample_target(), route_at_rest());
  auto held = wanted;
  held["metadata"]["uid"] = "u";
  held["spec"]["rules"][0]["timeouts"] = {{"request", "0s"}};
  CHECK(covers(held, wanted));
  auto other = held;
  other["spec"]["rules"][0]["backendRefs"][0]["weight"] = 1;
  CHECK_FALSE(covers(other, wanted));
  other = held;
  other["spec"]["rules"].push_back(held["spec"]["rules"][0]);
  CHECK_FALSE(covers(other, wanted));
  other = held;
  other["spec"].erase("hostnames");
  CHECK_FALSE(covers(other, wanted));
  other = held;
  other["metadata"]["annotations"]["driftgate/route"] = "7.2";
  CHECK_FALSE(covers(other, wanted));
}

TEST_CASE("a route is in force once each Gateway has accepted this generation and resolved its references") {
  const auto target = sample_target();
  CHECK(check_accepted(read_back({accepted_by(kPublic, 4), accepted_by(kInner, 4)}), target));
  const auto code = [&](std::initializer_list<json> said) {
    const auto checked = check_accepted(read_back(said), target);
    return checked ? ErrorCode::internal : checked.error().code;
  };
  CHECK(code({}) == ErrorCode::deadline_exceeded);
  CHECK(code({accepted_by(kPublic, 4)}) == ErrorCode::deadline_exceeded);
  CHECK(code({accepted_by(kPublic, 4), accepted_by(kInner, 3)}) == ErrorCode::deadline_exceeded);
  CHECK(code({accepted_by(kPublic, 3, "False"), accepted_by(kInner, 4)}) == ErrorCode::deadline_exceeded);
  CHECK(code({accepted_by(kPublic, 4, "False"), accepted_by(kInner, 4)}) == ErrorCode::conflict);
  CHECK(code({accepted_by(kPublic, 4), accepted_by(kInner, 4, "True", "False")}) == ErrorCode::conflict);
  const json other_listener = {{"name", "inner"}, {"namespace", "edge"}, {"sectionName", "http"}};
  CHECK(code({accepted_by(kPublic, 4), accepted_by(other_listener, 4)}) == ErrorCode::deadline_exceeded);
  const auto refused = check_accepted(read_back({accepted_by(kPublic, 4, "False")}), target);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("serving/public") != std::string::npos);
  CHECK(refused.error().message.find("Accepted is False (SomeReason): some message") != std::string::npos);
}

TEST_CASE("a rule that a Gateway left out is a refusal") {
  auto object = read_back({accepted_by(kPublic, 4), accepted_by(kInner, 4)});
  auto& conditions = object["status"]["parents"][0]["conditions"];
  conditions.push_back({{"type", "PartiallyInvalid"},
                        {"status", "True"},
                        {"reason", "UnsupportedValue"},
                        {"observedGeneration", 4}});
  const auto refused = check_accepted(object, sample_target());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("PartiallyInvalid") != std::string::npos);
}
