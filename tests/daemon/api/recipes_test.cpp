#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixture.hpp"

using namespace driftgate;
using namespace driftgate::api;
using namespace driftgate::api::test;

namespace {

constexpr const char* kRecipe = R"({"contract":"c"})";

}  // namespace

TEST_CASE("a change of a recipe names the revision that was read, and the first one none") {
  Fixture fixture;
  CHECK(header_of(fixture.call("GET", "/v1/models/m/recipe", "viewer"), "etag") == "\"3\"");
  CHECK(fixture.call("GET", "/v1/models/n/recipe", "viewer").status == 404);
  const auto put = [&](const std::string& model, const net::Headers& headers) {
    return fixture.call("PUT", "/v1/models/" + model + "/recipe", "promoter", kRecipe, headers).status;
  };
  CHECK(put("m", {{"If-Match", "\"3\""}}) == 200);
  CHECK(put("m", {{"If-Match", "*"}}) == 200);
  CHECK(put("m", {{"If-Match", "\"2\""}}) == 412);
  CHECK(put("m", {{"X-Other", "1"}}) == 428);
  CHECK(put("n", {{"X-Other", "1"}}) == 201);
  CHECK(put("n", {{"If-Match", "\"3\""}}) == 412);
  const auto remove = [&](const net::Headers& headers) {
    return fixture.call("DELETE", "/v1/models/m/recipe", "promoter", "", headers).status;
  };
  CHECK(remove({{"If-Match", "\"2\""}}) == 412);
  CHECK(remove({{"X-Other", "1"}}) == 428);
  CHECK(remove({{"If-Match", "\"3\""}}) == 204);
  fixture.recipes.warnings = {"Each fire time of the schedule nightly would be refused"};
  const auto warned = fixture.call("DELETE", "/v1/models/m/recipe", "promoter", "", {{"If-Match", "\"3\""}});
  CHECK(warned.status == 200);
  CHECK(nlohmann::json::parse(warned.body)["warnings"].size() == 1);
}

TEST_CASE("a change of a recipe that was deleted meanwhile is late, and not about nothing") {
  for (const int reads : {0, 1}) {
    CAPTURE(reads);
    for (const std::string method : {"PUT", "DELETE"}) {
      CAPTURE(method);
      Fixture fixture;
      fixture.recipes.gone_after = reads;
      CHECK(fixture
                .call(method, "/v1/models/m/recipe", "promoter", method == "PUT" ? kRecipe : "",
                      {{"If-Match", "\"3\""}})
                .status == 412);
    }
  }
}

TEST_CASE("who may not ask for promotions does not set what they take") {
  Fixture fixture;
  for (const char* scope : {"viewer", "operator", "approver", "auditor"}) {
    CAPTURE(scope);
    CHECK(fixture.call("PUT", "/v1/models/m/recipe", scope, kRecipe).status == 403);
    CHECK(fixture.call("DELETE", "/v1/models/m/recipe", scope).status == 403);
  }
}
