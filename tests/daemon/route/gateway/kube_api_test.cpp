#include "daemon/route/gateway/kube_api.hpp"

#include <doctest/doctest.h>

#include "daemon/route/gateway/http_route.hpp"
#include "tests/daemon/net/certificates.hpp"
#include "tests/daemon/route/gateway/cluster.hpp"
#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;
using namespace driftgate::route::gateway;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

KubeApi open_api(const RouterOptions& options) {
  auto api = KubeApi::open(options);
  REQUIRE(api);
  return std::move(*api);
}

json sample_object(const Cluster& cluster, std::uint64_t revision) {
  auto route = sample_route();
  route.revision = revision;
  const auto target = target_of(cluster.options());
  REQUIRE(target);
  return http_route(*target, route);
}

std::string name_at(const json& object) {
  return object["metadata"]["name"].get<std::string>();
}

std::string version_at(const json& object) {
  return object["metadata"]["resourceVersion"].get<std::string>();
}

}  // namespace

TEST_CASE("an HTTPRoute is made once, listed, and applied over the version that was read") {
  Cluster cluster;
  auto api = open_api(cluster.options());
  const auto made = api.create(sample_object(cluster, 1));
  REQUIRE_MESSAGE(made, made.error().describe());
  const auto again = api.create(sample_object(cluster, 1));
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::already_exists);
  const auto listed = api.list();
  REQUIRE(listed);
  REQUIRE(listed->size() == 1);
  const auto& [name, held] = *listed->begin();
  CHECK(name == name_at(*made));
  CHECK(covers(held, sample_object(cluster, 1)));
  const auto applied = api.apply(sample_object(cluster, 2), version_at(held));
  REQUIRE_MESSAGE(applied, applied.error().describe());
  CHECK(covers(*applied, sample_object(cluster, 2)));
  CHECK(version_at(*applied) != version_at(held));
}

TEST_CASE("what was changed since it was read is not written over") {
  Cluster cluster;
  auto api = open_api(cluster.options());
  const auto made = api.create(sample_object(cluster, 1));
  REQUIRE(made);
  cluster.user().merge(name_at(*made), {{"metadata", {{"labels", {{"team", "search"}}}}}}, "kubectl-label");
  const auto late = api.apply(sample_object(cluster, 2), version_at(*made));
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::unavailable);
  CHECK(late.error().message.find("was changed while") != std::string::npos);
  const auto now = cluster.user().only();
  CHECK(covers(now, sample_object(cluster, 1)));
  CHECK(now["metadata"]["labels"]["team"] == "search");
  const auto applied = api.apply(sample_object(cluster, 2), version_at(now));
  REQUIRE_MESSAGE(applied, applied.error().describe());
  CHECK((*applied)["metadata"]["labels"]["team"] == "search");
}

TEST_CASE("fields that somebody else has taken over are a conflict that names him and them") {
  Cluster cluster;
  auto api = open_api(cluster.options());
  const auto made = api.create(sample_object(cluster, 1));
  REQUIRE(made);
  auto rules = (*made)["spec"]["rules"];
  rules[0]["backendRefs"][0]["weight"] = 77;
  cluster.user().merge(name_at(*made), {{"spec", {{"rules", rules}}}}, "kubectl-edit");
  const auto refused = api.apply(sample_object(cluster, 2), version_at(cluster.user().only()));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("kubectl-edit") != std::string::npos);
  CHECK(refused.error().message.find(".spec.rules") != std::string::npos);
  CHECK(cluster.user().only()["spec"]["rules"][0]["backendRefs"][0]["weight"] == 77);
}

TEST_CASE("answers of the API server become errors that say what to do") {
  Cluster cluster;
  if (cluster.stand_in() == nullptr) return;  // a real one cannot be told to fail
  auto api = open_api(cluster.options());
  const auto failing = [&](int status, const char* body) {
    cluster.stand_in()->answer_next(status, body);
    const auto listed = api.list();
    REQUIRE_FALSE(listed);
    return listed.error();
  };
  const auto denied =
      failing(403, R"({"kind":"Status","message":"httproutes is forbidden: User \"x\" cannot list"})");
  CHECK(denied.code == ErrorCode::forbidden);
  CHECK(denied.message.find("User \"x\" cannot list") != std::string::npos);
  CHECK(denied.message.find("service account") != std::string::npos);
  const auto missing = failing(404, "404 page not found");
  CHECK(missing.code == ErrorCode::not_found);
  CHECK(missing.message.find("CustomResourceDefinitions") != std::string::npos);
  CHECK(failing(503, "").code == ErrorCode::unavailable);
  CHECK(failing(429, "").code == ErrorCode::unavailable);
  CHECK(failing(422, "{}").code == ErrorCode::invalid_argument);
  CHECK(failing(200, "no JSON").code == ErrorCode::invalid_document);
  CHECK(failing(200, "[]").code == ErrorCode::invalid_document);
  CHECK(failing(200, "{}").code == ErrorCode::invalid_document);
  CHECK(api.list());
}

TEST_CASE("the token is read anew for each exchange") {
  Cluster cluster;
  if (cluster.stand_in() == nullptr) return;  // tokens of a real one stay
  auto api = open_api(cluster.options());
  REQUIRE(api.list());
  cluster.stand_in()->set_token("second-token");
  const auto refused = api.list();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unauthenticated);
  CHECK(refused.error().message.find("gateway.token_file") != std::string::npos);
  cluster.write_token("second-token");
  CHECK(api.list());
  cluster.write_token("two words");
  CHECK(api.list().error().code == ErrorCode::io);
}

TEST_CASE("a server that the CA file does not vouch for gets no token") {
  Cluster cluster;
  if (cluster.stand_in() == nullptr) return;
  auto options = cluster.options();
  options.gateway_ca_file = driftgate::net::test::certificates().file("stranger.pem");
  auto api = open_api(options);
  const auto refused = api.list();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::forbidden);
  CHECK(cluster.stand_in()->seen().empty());
}

TEST_CASE("plain HTTP is for loopback alone") {
  RouterOptions options;
  options.gateway_api = "http://kube.example.org";
  const auto refused = KubeApi::open(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::invalid_argument);
  CHECK(refused.error().message.find("https") != std::string::npos);
  options.gateway_api = "http://127.0.0.1:8001";
  CHECK(KubeApi::open(options));
}
