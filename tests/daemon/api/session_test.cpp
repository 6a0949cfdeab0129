#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "daemon/api/access/credentials.hpp"
#include "daemon/auth/sessions.hpp"
#include "daemon/net/request.hpp"
#include "daemon/web/site.hpp"
#include "fixture.hpp"

using namespace driftgate;
using driftgate::api::test::Fixture;
using driftgate::api::test::header_of;
using nlohmann::json;

namespace {

const std::string kAbort = R"({"reason":"because"})";

net::Headers cookie(const std::string& scopes, net::Headers more = {}) {
  more.push_back({"Cookie", "theme=dark; driftgate_session=" + scopes + "; other=1"});
  return more;
}

net::Headers with_csrf(const std::string& scopes, net::Headers more = {}) {
  more.push_back({"X-CSRF-Token", auth::csrf_token(scopes)});
  return cookie(scopes, std::move(more));
}

std::string code_of(const net::Response& response) {
  return json::parse(response.body).value("code", "");
}

net::RequestHead head_with(const net::Headers& headers) {
  net::RequestHead head;
  head.method = "GET";
  head.headers = headers;
  return head;
}

}  // namespace

TEST_CASE("signing in exchanges the token for a cookie that scripts and other sites do not get") {
  Fixture fixture;
  const auto response = fixture.call("POST", "/v1/session", "viewer,approver");
  REQUIRE(response.status == 201);
  CHECK(header_of(response, "set-cookie") ==
        "driftgate_session=viewer,approver; HttpOnly; SameSite=Strict; Path=/; Max-Age=49");
  CHECK(header_of(response, "cache-control") == "no-store");
  const json body = json::parse(response.body);
  CHECK(body["name"] == "viewer,approver");
  CHECK(body["scopes"] == json::array({"viewer", "approver"}));
  CHECK(body["token"] == "tok-1");
  CHECK(body["csrf"] == auth::csrf_token("viewer,approver"));
  CHECK(body["expires_us"] == 50'000'000);
  CHECK(body["server"]["version"] == "0.1.0");
  CHECK(body["server"]["started_us"] == 7);
}

TEST_CASE("over TLS, the daemon's own or a proxy's, the cookie is never sent without it") {
  Fixture fixture;
  const auto proxied = fixture.call("POST", "/v1/session", "viewer", {}, {{"X-Forwarded-Proto", "https"}});
  CHECK(header_of(proxied, "set-cookie").starts_with("__Host-driftgate_session=viewer;"));
  CHECK(header_of(proxied, "set-cookie").ends_with("; Secure"));
  fixture.context.server.tls = true;
  api::Api over_tls(fixture.context);
  auto head = net::parse_request_head(
      "POST /v1/session HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dg_viewer\r\n\r\n");
  REQUIRE(head);
  net::Request request;
  static_cast<net::RequestHead&>(request) = std::move(*head);
  REQUIRE_FALSE(over_tls.before_body(request));
  CHECK(header_of(over_tls.handle(request), "set-cookie").ends_with("; Secure"));
}

TEST_CASE("the cookie is named after the port that was asked for, and over TLS is the host's own") {
  const auto name = [](const net::Headers& headers, bool tls = false) {
    return api::session_cookie_name(head_with(headers), tls);
  };
  const std::string secure = "__Host-driftgate_session";
  CHECK(name({{"Host", "127.0.0.1:7433"}}) == "driftgate_session_7433");
  CHECK(name({{"Host", "[::1]:7434"}}) == "driftgate_session_7434");
  for (const char* host : {"gate", "gate:", "gate:http", "gate:123456", "gate:1;a=b"})
    CHECK(name({{"Host", host}}) == "driftgate_session");
  CHECK(name({{"Host", "127.0.0.1:7433"}}, true) == secure);
  for (const char* proto : {"https", "HTTPS", " https ,http", "Https, https"})
    CHECK(name({{"Host", "gate:80"}, {"X-Forwarded-Proto", proto}}) == secure);
  for (const char* proto : {"", "http", "http, https", "httpsx", ","})
    CHECK(name({{"Host", "gate:80"}, {"X-Forwarded-Proto", proto}}) == "driftgate_session_80");
  const net::Headers both{{"Host", "a:1"}, {"Cookie", "driftgate_session_2=b; driftgate_session_1=a"}};
  CHECK(api::session_cookie(head_with(both), false).value() == "a");
  CHECK(api::session_cookie(head_with(both), true).value() == std::nullopt);
}

TEST_CASE("signing in again ends the session of the cookie that the new one replaces") {
  Fixture fixture;
  CHECK(fixture.call("POST", "/v1/session", "viewer", {}, cookie("unknown")).status == 201);
  CHECK_FALSE(fixture.tokens.ended);
  CHECK(fixture.call("POST", "/v1/session", "viewer", {}, cookie("operator")).status == 201);
  CHECK(fixture.tokens.ended);
}

TEST_CASE("a sign-in takes a token and no body, and no session opens another") {
  Fixture fixture;
  CHECK(fixture.call("POST", "/v1/session", "").status == 401);
  CHECK(fixture.call("POST", "/v1/session", "nonsense").status == 401);
  CHECK(fixture.call("POST", "/v1/session", "viewer", "{}").status == 400);
  CHECK(fixture.call("POST", "/v1/session", "", {}, with_csrf("viewer")).status == 403);
}

TEST_CASE("the cookie does what its token does, under its name") {
  Fixture fixture;
  const auto session = fixture.call("GET", "/v1/session", "", {}, cookie("operator"));
  REQUIRE(session.status == 200);
  CHECK(json::parse(session.body)["csrf"] == auth::csrf_token("operator"));
  CHECK(fixture.call("GET", "/v1/tokens", "", {}, cookie("operator")).status == 403);
  const auto done = fixture.call("POST", "/v1/promotions/pr-1/abort", "", kAbort, with_csrf("operator"));
  CHECK(done.status == 200);
  CHECK(fixture.service.calls == std::vector<std::string>{"operator abort pr-1 because"});
  CHECK(fixture.log.back().principal == "operator");
}

TEST_CASE("a token has no session: its csrf is null, and there is nothing to sign out from") {
  Fixture fixture;
  CHECK(json::parse(fixture.call("GET", "/v1/session", "viewer").body)["csrf"].is_null());
  CHECK(fixture.call("DELETE", "/v1/session", "viewer", {}, {{"X-A", "b"}}).status == 404);
}

TEST_CASE("a change with the cookie needs the session's own token, and reading does not") {
  Fixture fixture;
  const auto changed = [&](const net::Headers& headers) {
    return fixture.call("POST", "/v1/promotions/pr-1/abort", "", kAbort, headers);
  };
  for (const net::Headers& headers : {cookie("operator"), cookie("operator", {{"X-CSRF-Token", ""}}),
                                      cookie("operator", {{"X-CSRF-Token", "operator"}}),
                                      cookie("operator", {{"X-CSRF-Token", auth::csrf_token("viewer")}})}) {
    const auto refused = changed(headers);
    CHECK(refused.status == 403);
    CHECK(code_of(refused) == "forbidden");
  }
  CHECK(fixture.call("DELETE", "/v1/session", "", {}, cookie("operator")).status == 403);
  CHECK_FALSE(fixture.tokens.ended);
  CHECK(fixture.service.calls.empty());
  CHECK(fixture.call("GET", "/v1/promotions", "", {}, cookie("operator")).status == 200);
  CHECK(changed(with_csrf("operator")).status == 200);
}

TEST_CASE("what another site causes is refused, reading too, but a token of its own is taken") {
  Fixture fixture;
  for (const char* site : {"cross-site", "same-site", "", "Same-Origin"}) {
    CAPTURE(site);
    const net::Headers from{{"Sec-Fetch-Site", site}};
    const auto refused = fixture.call("GET", "/v1/promotions", "", {}, cookie("viewer", from));
    CHECK(refused.status == 403);
    CHECK(code_of(refused) == "forbidden");
    CHECK(fixture.call("POST", "/v1/promotions/pr-1/abort", "", kAbort, with_csrf("operator", from)).status ==
          403);
    CHECK(fixture.call("GET", "/v1/promotions", "viewer", {}, from).status == 200);
  }
  for (const char* site : {"same-origin", "none"})
    CHECK(
        fixture.call("GET", "/v1/promotions", "", {}, cookie("viewer", {{"Sec-Fetch-Site", site}})).status ==
        200);
}

TEST_CASE("a token in the same request wins over the cookie, even one that does not work") {
  Fixture fixture;
  const auto both = fixture.call("POST", "/v1/promotions/pr-1/abort", "operator", kAbort, cookie("viewer"));
  CHECK(both.status == 200);
  CHECK(fixture.call("GET", "/v1/promotions", "nonsense", {}, cookie("viewer")).status == 401);
}

TEST_CASE("signing out ends the session and clears the cookie") {
  Fixture fixture;
  const auto response = fixture.call("DELETE", "/v1/session", "", {}, with_csrf("viewer"));
  REQUIRE(response.status == 204);
  CHECK(header_of(response, "set-cookie") ==
        "driftgate_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
  CHECK(fixture.tokens.ended);
  CHECK(fixture.call("GET", "/v1/session", "", {}, cookie("viewer")).status == 401);
}

TEST_CASE("a stream that a session opened ends with it") {
  Fixture fixture;
  const auto stream = fixture.call("GET", "/v1/promotions/pr-1/events", "", {}, cookie("auditor"));
  REQUIRE(stream.feed);
  CHECK_FALSE(stream.feed->next().ended);
  CHECK(fixture.call("DELETE", "/v1/session", "", {}, with_csrf("auditor")).status == 204);
  const auto last = stream.feed->next();
  CHECK(last.ended);
  CHECK(last.events.empty());
}

TEST_CASE("a session that ends while the body is on its way has no effect") {
  Fixture fixture;
  auto head = net::parse_request_head(
      "POST /v1/promotions/pr-1/abort HTTP/1.1\r\nHost: a\r\nCookie: "
      "driftgate_session=operator\r\nX-CSRF-Token: " +
      auth::csrf_token("operator") + "\r\n\r\n");
  REQUIRE(head);
  net::Request request;
  static_cast<net::RequestHead&>(request) = std::move(*head);
  REQUIRE_FALSE(fixture.api.before_body(request));
  fixture.tokens.ended = true;
  request.body = kAbort;
  CHECK(fixture.api.handle(request).status == 401);
  CHECK(fixture.service.calls.empty());
}

TEST_CASE("the session's cookie is found among others, and two of them are refused") {
  const auto value = [](const net::Headers& headers) {
    return api::session_cookie(head_with(headers), false).value().value_or("none");
  };
  CHECK(value({}) == "none");
  CHECK(value({{"Cookie", ""}}) == "none");
  CHECK(value({{"Cookie", ";;=; a"}}) == "none");
  CHECK(value({{"Cookie", "xdriftgate_session=a; driftgate_sessionx=b; Driftgate_Session=c"}}) == "none");
  CHECK(value({{"Cookie", "driftgate_session="}}) == "");
  CHECK(value({{"cookie", "a=b;driftgate_session=c=d ;e=f"}}) == "c=d");
  CHECK(value({{"Cookie", "a=b"}, {"Cookie", "driftgate_session=c"}}) == "c");
  for (const net::Headers& twice :
       {net::Headers{{"Cookie", "driftgate_session=a; driftgate_session=a"}},
        net::Headers{{"Cookie", "driftgate_session=a"}, {"cookie", "driftgate_session=b"}}}) {
    const auto refused = api::session_cookie(head_with(twice), false);
    REQUIRE(!refused);
    CHECK(refused.error().code == schema::ErrorCode::unauthenticated);
  }
}

TEST_CASE("a session shares the requests of its token, and others' failures hold up nobody") {
  Fixture fixture;
  fixture.context.requests_per_second = 1;
  fixture.context.burst = 2;
  api::Api api(fixture.context);
  const auto status = [&](const std::string& credentials, const std::string& address) {
    auto head = net::parse_request_head("GET /v1/whoami HTTP/1.1\r\nHost: a\r\n" + credentials + "\r\n\r\n");
    REQUIRE(head);
    head->remote_address = address;
    auto refusal = api.before_body(*head);
    return refusal ? refusal->status : 200;
  };
  const std::string bearer = "Authorization: Bearer dg_viewer", session = "Cookie: driftgate_session=viewer";
  CHECK(status(bearer, "192.0.2.1") == 200);
  CHECK(status(session, "192.0.2.2") == 200);
  CHECK(status(session, "192.0.2.2") == 429);
  CHECK(status(bearer, "192.0.2.1") == 429);
  const std::string wrong = "Cookie: driftgate_session=nonsense";
  CHECK(status(wrong, "192.0.2.3") == 401);
  CHECK(status("Authorization: Bearer dg_nonsense", "192.0.2.3") == 401);
  for (int i = 0; i < 5; ++i)
    CHECK(status(wrong, "192.0.2.3") == 401);  // behind a proxy all have one address
  fixture.now_us += 1'000'000;
  CHECK(status(session, "192.0.2.3") == 200);
}

TEST_CASE("the page is open to everyone beside the API, and takes no path from it") {
  constexpr std::array<web::File, 1> kFiles{
      {{"/index.html", "text/html; charset=utf-8", "abcd", "<p>", {}, {}}}};
  const web::Site site(kFiles);
  Fixture fixture;
  fixture.context.site = &site;
  api::Api api(fixture.context);
  const auto ask = [&](const std::string& method, const std::string& path) {
    auto head = net::parse_request_head(method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    REQUIRE(head);
    net::Request request;
    static_cast<net::RequestHead&>(request) = std::move(*head);
    auto refusal = api.before_body(request);
    return refusal ? std::move(*refusal) : api.handle(request);
  };
  for (const char* path : {"/", "/p/pr-1", "/settings?x=y"}) {
    const auto page = ask("GET", path);
    CHECK(page.status == 200);
    CHECK(page.body == "<p>");
    CHECK(header_of(page, "cache-control") == "no-cache");
  }
  const auto posted = ask("POST", "/");
  CHECK(posted.status == 405);
  CHECK(header_of(posted, "allow") == "GET, HEAD");
  CHECK(ask("GET", "/assets/none.js").status == 404);
  CHECK(ask("GET", "/v1/tokens").status == 401);
  CHECK(ask("GET", "/v1/nothing").status == 404);
  CHECK(ask("GET", "/healthz").status == 200);
}

TEST_CASE("the settings in force are for operators") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/settings", "viewer").status == 403);
  const auto response = fixture.call("GET", "/v1/settings", "operator");
  REQUIRE(response.status == 200);
  CHECK(json::parse(response.body)["items"][0]["changed"] == true);
}
