#include "daemon/api/api.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixture.hpp"

using namespace driftgate::api;
using driftgate::api::test::Fixture;
using driftgate::api::test::header_of;
using driftgate::auth::Scope;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr Scope kScopes[] = {Scope::viewer,    Scope::promoter, Scope::approver,
                             Scope::operator_, Scope::auditor,  Scope::admin};

std::string code_of(const driftgate::net::Response& response) {
  const json body = json::parse(response.body, nullptr, false);
  return body.is_object() && body.contains("code") ? body["code"].get<std::string>() : "";
}

}  // namespace

TEST_CASE("every route answers as documented to a token that may use it") {
  for (const Route& route : routes()) {
    CAPTURE(route.id);
    Fixture fixture;
    const std::string scope = route.scope ? std::string(driftgate::auth::to_string(*route.scope)) : "";
    const auto response =
        fixture.call(std::string(route.method), test::sample_path(route), scope, test::sample_body(route));
    CHECK(response.status < 300);
  }
}

TEST_CASE("every protected route refuses a missing and an unknown token with 401") {
  for (const Route& route : routes()) {
    if (!route.scope) continue;
    CAPTURE(route.id);
    Fixture fixture;
    const std::string method(route.method);
    const auto missing = fixture.call(method, test::sample_path(route), "", test::sample_body(route));
    CHECK(missing.status == 401);
    CHECK(code_of(missing) == "unauthenticated");
    CHECK(header_of(missing, "www-authenticate").starts_with("Bearer"));
    CHECK(fixture.call(method, test::sample_path(route), "nonsense", test::sample_body(route)).status == 401);
    const auto basic =
        fixture.call(method, test::sample_path(route), "", {}, {{"Authorization", "Basic dg_admin"}});
    CHECK(basic.status == 401);
    CHECK(fixture.service.calls.empty());
  }
}

TEST_CASE("every protected route refuses exactly the scopes that do not allow it") {
  for (const Route& route : routes()) {
    if (!route.scope) continue;
    for (const Scope scope : kScopes) {
      const std::string name(driftgate::auth::to_string(scope));
      CAPTURE(route.id);
      CAPTURE(name);
      const bool admin_covers = scope == Scope::admin && *route.scope != Scope::approver;
      const bool allowed = scope == *route.scope || *route.scope == Scope::viewer || admin_covers;
      Fixture fixture;
      const auto response =
          fixture.call(std::string(route.method), test::sample_path(route), name, test::sample_body(route));
      CHECK((response.status == 403) == !allowed);
      if (!allowed) CHECK(fixture.service.calls.empty());
    }
  }
}

TEST_CASE("an unknown path is 404 and a known path with another method is 405 with Allow") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/nothing", "viewer").status == 404);
  CHECK(fixture.call("GET", "/v1/promotions/", "viewer").status == 404);
  CHECK(fixture.call("GET", "/v1/promotions/pr-1/", "viewer").status == 404);
  CHECK(fixture.call("GET", "/v1/promotions/%zz", "viewer").status == 404);
  const auto method = fixture.call("PUT", "/v1/promotions", "viewer");
  CHECK(method.status == 405);
  CHECK(header_of(method, "allow") == "POST, GET");
}

TEST_CASE("an unknown query parameter is refused and the known ones are named") {
  Fixture fixture;
  const auto response = fixture.call("GET", "/v1/promotions?modle=m", "viewer");
  CHECK(response.status == 400);
  CHECK(response.body.find("model, state, open, needs, requester, contract, q, order, after, limit") !=
        std::string::npos);
}

TEST_CASE("errors of the pipeline become problems with their code, detail and pointer") {
  Fixture fixture;
  fixture.service.failure = driftgate::schema::Error{ErrorCode::conflict, "a hold is set", {}, nullptr};
  const auto conflict = fixture.call("POST", "/v1/promotions/pr-1/abort", "operator", R"({"reason":"x"})");
  CHECK(conflict.status == 409);
  CHECK(code_of(conflict) == "conflict");
  fixture.service.failure =
      driftgate::schema::Error{ErrorCode::invalid_document, "c:1:2: first\nc:3:4: second", {}, nullptr};
  const auto contract = fixture.call("POST", "/v1/contracts", "promoter", "x");
  CHECK(contract.status == 422);
  CHECK(json::parse(contract.body)["errors"].size() == 2);
}

TEST_CASE("bodies with a wrong, missing or unknown member are told with the pointer to it") {
  Fixture fixture;
  const auto pointer = [&](const std::string& target, const std::string& scope, const std::string& body) {
    const auto response = fixture.call("POST", target, scope, body);
    CHECK(response.status == 422);
    return json::parse(response.body)["errors"][0].value("pointer", "");
  };
  CHECK(pointer("/v1/promotions/pr-1/abort", "operator", "{}") == "/reason");
  CHECK(pointer("/v1/promotions/pr-1/abort", "operator", R"({"reason":"x","extra":1})") == "/extra");
  CHECK(pointer("/v1/promotions/pr-1/approve", "approver", R"({"reason":"x"})") == "/evidence_digest");
  CHECK(pointer("/v1/tokens", "admin", R"({"name":"a"})") == "/scopes");
  CHECK(pointer("/v1/tokens", "admin", R"({"name":"a","scopes":["viewer"],"expires_in_s":0})") ==
        "/expires_in_s");
  CHECK(fixture.call("POST", "/v1/promotions/pr-1/abort", "operator", "{").status == 422);
  CHECK(fixture.service.calls.empty());
}

TEST_CASE("the same idempotency key and body replays the answer and has one effect") {
  Fixture fixture;
  const driftgate::net::Headers key{{"Idempotency-Key", "k1"}};
  const std::string body = R"({"model":"m","engine":"e","contract":"c"})";
  const auto first = fixture.call("POST", "/v1/promotions", "promoter", body, key);
  const auto second = fixture.call("POST", "/v1/promotions", "promoter", body, key);
  CHECK(first.status == 201);
  CHECK(second.status == 201);
  CHECK(second.body == first.body);
  CHECK(header_of(second, "location") == "/v1/promotions/pr-1");
  CHECK(header_of(second, "idempotency-replayed") == "true");
  CHECK(fixture.service.promotions_made == 1);
}

TEST_CASE("an idempotency key with another body is 422, of another principal its own") {
  Fixture fixture;
  const driftgate::net::Headers key{{"Idempotency-Key", "k1"}};
  const std::string body = R"({"model":"m","engine":"e","contract":"c"})";
  CHECK(fixture.call("POST", "/v1/promotions", "promoter", body, key).status == 201);
  const auto other =
      fixture.call("POST", "/v1/promotions", "promoter", R"({"model":"m","engine":"f","contract":"c"})", key);
  CHECK(other.status == 422);
  CHECK(code_of(other) == "idempotency_key_reused");
  CHECK(fixture.call("POST", "/v1/promotions", "promoter,viewer", body, key).status == 201);
  CHECK(fixture.service.promotions_made == 2);
}

TEST_CASE("what a daemon of before made and did not answer is found by its key") {
  Fixture fixture;
  const driftgate::net::Headers key{{"Idempotency-Key", "k1"}};
  const std::string body = R"({"model":"m","engine":"e","contract":"c"})";
  const auto first = fixture.call("POST", "/v1/promotions", "promoter", body, key);
  REQUIRE(first.status == 201);
  for (auto& [name, kept] : fixture.idempotency.kept) kept.response = {.effect = "pr-1"};
  const auto again = fixture.call("POST", "/v1/promotions", "promoter", body, key);
  CHECK(again.status == 201);
  CHECK(header_of(again, "location") == "/v1/promotions/pr-1");
  CHECK(fixture.service.promotions_made == 1);
}

TEST_CASE("a token that ends while the body is on its way has no effect") {
  Fixture fixture;
  fixture.tokens.ended = true;
  const auto refused = fixture.call("POST", "/v1/promotions", "promoter", R"({"model":"m","engine":"e","contract":"c"})");
  CHECK(refused.status == 401);
  CHECK(code_of(refused) == "unauthenticated");
  CHECK(fixture.service.calls.empty());
}

TEST_CASE("a request that failed may be tried again with its key") {
  Fixture fixture;
  const driftgate::net::Headers key{{"Idempotency-Key", "k1"}};
  const std::string body = R"({"model":"m","engine":"e","contract":"c"})";
  fixture.service.failure = driftgate::schema::Error{ErrorCode::unavailable, "busy", {}, nullptr};
  CHECK(fixture.call("POST", "/v1/promotions", "promoter", body, key).status == 503);
  fixture.service.failure.reset();
  CHECK(fixture.call("POST", "/v1/promotions", "promoter", body, key).status == 201);
}

TEST_CASE("a dry run plans and promotes nothing") {
  Fixture fixture;
  const std::string body = R"({"model":"m","engine":"e","contract":"c"})";
  CHECK(fixture.call("POST", "/v1/promotions?dry_run=true", "promoter", body).status == 200);
  CHECK(fixture.service.calls == std::vector<std::string>{"promoter plan_promotion"});
  CHECK(fixture.call("POST", "/v1/promotions?dry_run=yes", "promoter", body).status == 400);
}

TEST_CASE("pages carry a cursor and a Link that keeps the filters") {
  Fixture fixture;
  const auto first = fixture.call("GET", "/v1/promotions?model=m%20x&limit=1", "viewer");
  CHECK(json::parse(first.body)["next"] == "two");
  CHECK(header_of(first, "link") == "</v1/promotions?model=m%20x&limit=1&after=two>; rel=\"next\"");
  const auto second = fixture.call("GET", "/v1/promotions?limit=1&after=two", "viewer");
  CHECK(json::parse(second.body)["next"].is_null());
  CHECK(header_of(second, "link").empty());
  for (const char* limit : {"0", "501", "-1", "x", "1e3"})
    CHECK(fixture.call("GET", std::string("/v1/models?limit=") + limit, "viewer").status == 400);
}

TEST_CASE("reading evidence is itself recorded, and each page as the same question") {
  Fixture fixture;
  const auto first = fixture.call("GET", "/v1/evidence?limit=4&kind=state_changed", "auditor");
  CHECK(json::parse(first.body)["items"].size() == 4);
  CHECK(json::parse(first.body)["tree_size"] == 10);
  const auto next = json::parse(first.body)["next"].get<std::string>();
  const std::string again = "/v1/evidence?limit=4&kind=state_changed&after=";
  CHECK(fixture.call("GET", again + next, "auditor").status == 200);
  CHECK(fixture.call("GET", again + "0", "auditor").status == 200);
  CHECK(fixture.evidence.reads == std::vector<std::string>(3, "auditor entries limit=4 kind=state_changed"));
  CHECK(fixture.call("GET", "/v1/evidence?kind=nonsense", "auditor").status == 400);
  CHECK(fixture.call("GET", "/v1/evidence?order=up", "auditor").status == 400);
  CHECK(fixture.call("GET", "/v1/evidence/99", "auditor").status == 404);
  CHECK(fixture.call("GET", "/v1/evidence/x", "auditor").status == 400);
}

TEST_CASE("one entry is given with its exact bytes") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/evidence/3", "auditor").body == test::FakeEvidence::entry_json(3));
}

TEST_CASE("a token's answer is never kept under an idempotency key") {
  Fixture fixture;
  const auto response = fixture.call("POST", "/v1/tokens", "admin", R"({"name":"bob","scopes":["approver"]})",
                                     {{"Idempotency-Key", "k1"}});
  CHECK(response.status == 201);
  CHECK(fixture.idempotency.kept.empty());
}

TEST_CASE("readiness lists its checks and is 503 when one fails") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/readyz", "").status == 200);
  fixture.checks.push_back({"router", false, "it does not answer"});
  const auto response = fixture.call("GET", "/readyz", "");
  CHECK(response.status == 503);
  CHECK(response.body.find("it does not answer") != std::string::npos);
}

TEST_CASE("a principal that asks too often gets 429 and is served again later") {
  Fixture fixture;
  fixture.context.requests_per_second = 1;
  fixture.context.burst = 2;
  Api api(fixture.context);
  const auto status = [&] {
    auto head = driftgate::net::parse_request_head(
        "GET /v1/whoami HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dg_viewer\r\n\r\n");
    auto refusal = api.before_body(*head);
    return refusal ? refusal->status : 200;
  };
  CHECK(status() == 200);
  CHECK(status() == 200);
  CHECK(status() == 429);
  fixture.now_us += 1'000'000;
  CHECK(status() == 200);
}

TEST_CASE("what was answered is logged with the principal and without the token") {
  Fixture fixture;
  fixture.call("GET", "/v1/whoami", "viewer");
  fixture.call("GET", "/v1/whoami", "");
  REQUIRE(fixture.log.size() == 2);
  CHECK(fixture.log[0].principal == "viewer");
  CHECK(fixture.log[0].status == 200);
  CHECK(fixture.log[1].status == 401);
}
