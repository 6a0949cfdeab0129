#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixture.hpp"

using namespace driftgate::api;
using driftgate::api::test::Fixture;
using driftgate::api::test::header_of;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

const driftgate::net::Headers kKey{{"Idempotency-Key", "k1"}};

/// Routes by which people act on what is there.
std::vector<const Route*> actions() {
  std::vector<const Route*> found;
  for (const Route& route : routes())
    if (route.idempotent && route.answers.front().status == 200) found.push_back(&route);
  return found;
}

}  // namespace

TEST_CASE("every action answers a repetition under its key with the first answer and has one effect") {
  CHECK(actions().size() == 10);
  for (const Route* route : actions()) {
    CAPTURE(route->id);
    Fixture fixture;
    const std::string scope(driftgate::auth::to_string(*route->scope));
    const auto path = test::sample_path(*route);
    const auto first = fixture.call("POST", path, scope, test::sample_body(*route), kKey);
    REQUIRE(first.status == 200);
    CHECK(header_of(first, "location").empty());
    const auto calls = fixture.service.calls;
    const auto again = fixture.call("POST", path, scope, test::sample_body(*route), kKey);
    CHECK(again.status == 200);
    CHECK(again.body == first.body);
    CHECK(header_of(again, "idempotency-replayed") == "true");
    CHECK(fixture.service.calls == calls);
  }
}

TEST_CASE("an action's key with another body is refused, and one that failed may be tried again") {
  Fixture fixture;
  const auto act = [&](const char* reason) {
    return fixture
        .call("POST", "/v1/promotions/pr-1/pause", "operator", json{{"reason", reason}}.dump(), kKey)
        .status;
  };
  fixture.service.failure = driftgate::schema::Error{ErrorCode::conflict, "it has ended", {}, nullptr};
  CHECK(act("look") == 409);
  fixture.service.failure.reset();
  CHECK(act("look") == 200);
  CHECK(act("look again") == 422);
}

TEST_CASE("orders name what was shown, if they wish") {
  const std::string shown = test::kDigest;
  for (const std::string action : {"abort", "rollback", "pause", "resume"}) {
    CAPTURE(action);
    Fixture fixture;
    const std::string path = "/v1/promotions/pr-1/" + action;
    const auto with = json{{"reason", "x"}, {"evidence_digest", shown}}.dump();
    CHECK(fixture.call("POST", path, "operator", with).status == 200);
    CHECK(fixture.call("POST", path, "operator", R"({"reason":"x"})").status == 200);
    CHECK(fixture.service.calls == std::vector<std::string>{"operator " + action + " pr-1 x as " + shown,
                                                            "operator " + action + " pr-1 x"});
    const auto wrong = fixture.call("POST", path, "operator", R"({"reason":"x","evidence_digest":7})");
    CHECK(wrong.status == 422);
    CHECK(json::parse(wrong.body)["errors"][0]["pointer"] == "/evidence_digest");
  }
  Fixture fixture;
  CHECK(fixture.call("POST", "/v1/models/m/lift-hold", "operator", R"({"reason":"x","evidence_digest":"y"})")
            .status == 422);
}

TEST_CASE("the filters of the list reach the pipeline") {
  Fixture fixture;
  const auto listed = fixture.call(
      "GET",
      "/v1/"
      "promotions?model=m&state=paused&open=true&needs=true&requester=ada&contract=c&q=x%20y&order=updated",
      "viewer");
  CHECK(listed.status == 200);
  const auto& filter = fixture.service.filter;
  CHECK(filter.model == "m");
  CHECK(filter.state == "paused");
  CHECK(filter.requester == "ada");
  CHECK(filter.contract == "c");
  CHECK(filter.text == "x y");
  CHECK(filter.open);
  CHECK(filter.needs);
  CHECK(filter.order == "updated");
  CHECK(fixture.call("GET", "/v1/promotions?open=yes", "viewer").status == 400);
}

TEST_CASE("the status is one page with counts and the size of the log") {
  Fixture fixture;
  const auto first = fixture.call("GET", "/v1/status?q=m&limit=1", "viewer");
  REQUIRE(first.status == 200);
  const auto body = json::parse(first.body);
  CHECK(body["items"][0]["promotion"]["id"] == "pr-1");
  CHECK(body["counts"]["open"] == 1);
  CHECK(body["tree_size"] == 10);
  CHECK(body["next"] == "two");
  CHECK(header_of(first, "link") == "</v1/status?q=m&limit=1&after=two>; rel=\"next\"");
}
