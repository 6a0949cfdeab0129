#include "daemon/route/relay/forward.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

using namespace driftgate::route;

namespace {

Endpoint engine_at(const std::string& url) {
  const auto endpoint = parse_engine_url(url);
  REQUIRE(endpoint);
  return *endpoint;
}

}  // namespace

TEST_CASE(
    "an engine under a path gets it before the client's own, and its host without the scheme's own port") {
  const std::string text = "GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n";
  const auto head = parse_request_head(text);
  REQUIRE(head);
  CHECK(engine_request_head(*head, engine_at("https://gw.example:443/team-a"), 0, "driftgate-1") ==
        "GET /team-a/v1/models HTTP/1.1\r\nHost: gw.example\r\nVia: 1.1 driftgate-1\r\nContent-Length: "
        "0\r\n\r\n");
}

TEST_CASE("an engine gets the client's fields without those of the hop or of driftgate") {
  const std::string text =
      "POST /v1/completions?a=b HTTP/1.1\r\nHost: router\r\nAuthorization: Bearer x\r\nConnection: "
      "x-hop\r\nX-Hop: 1\r\n"
      "Driftgate-Key: secret\r\nX_Request_Id: 7\r\nAccept-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nExpect: "
      "100-continue\r\n\r\n";
  const auto head = parse_request_head(text);
  REQUIRE(head);
  CHECK(engine_request_head(*head, engine_at("http://e:1"), 5, "driftgate-1") ==
        "POST /v1/completions?a=b HTTP/1.1\r\nHost: e:1\r\nAuthorization: Bearer x\r\nVia: 1.1 "
        "driftgate-1\r\nContent-Length: 5\r\n\r\n");
}

TEST_CASE("those that passed a request on before stay in Via, in their order") {
  const std::string text =
      "POST / HTTP/1.0\r\nVia: 1.0 fred, 1.1 p.example.net (a, b)\r\nX-Id: 7\r\nVia: 1.1 driftgate-2\r\n\r\n";
  const auto head = parse_request_head(text);
  REQUIRE(head);
  CHECK(engine_request_head(*head, engine_at("http://e:1"), 0, "driftgate-1") ==
        "POST / HTTP/1.1\r\nHost: e:1\r\nVia: 1.0 fred, 1.1 p.example.net (a, b)\r\nX-Id: 7\r\nVia: 1.1 "
        "driftgate-2\r\nVia: 1.0 driftgate-1\r\nContent-Length: 0\r\n\r\n");
}

TEST_CASE("a router is found in Via whoever stands before and behind it, and no other is taken for it") {
  const auto mark = via_mark("00ff");
  CHECK(mark == "driftgate-00ff");
  for (const char* value : {"1.1 driftgate-00ff", "1.0 fred, 1.1 Driftgate-00FF", "1.1\tdriftgate-00ff (x), 1.1 b",
                            "HTTP/1.1 driftgate-00ff,1.1 b"})
    CHECK(via_names(value, mark));
  for (const char* value : {"", "1.1 driftgate-00f", "1.1 driftgate-00ffa", "driftgate", "1.1 x-driftgate-00ff"})
    CHECK_FALSE(via_names(value, mark));
}

TEST_CASE("an answer that the router is busy says when to try again") {
  CHECK(refusal_answer({503, "x", "y"}, true).find("\r\nRetry-After: 1\r\n") != std::string::npos);
  CHECK(refusal_answer({502, "x", "y"}, true).find("Retry-After") == std::string::npos);
}

TEST_CASE("a client gets the engine's fields framed anew") {
  const std::string text =
      "HTTP/1.1 200 Fine\r\nX-Id: 7\r\nKeep-Alive: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto head = parse_response_head(text);
  REQUIRE(head);
  CHECK(client_answer_head(*head, Framing::length, 3, true) ==
        "HTTP/1.1 200 Fine\r\nX-Id: 7\r\nContent-Length: 3\r\n\r\n");
  CHECK(client_answer_head(*head, Framing::chunked, 0, false) ==
        "HTTP/1.1 200 Fine\r\nX-Id: 7\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
  CHECK(client_answer_head(*head, Framing::until_close, 0, true) ==
        "HTTP/1.1 200 Fine\r\nX-Id: 7\r\nConnection: close\r\n\r\n");
}

TEST_CASE("errors have the shape that OpenAI clients read, whatever bytes are in the message") {
  const auto answer = refusal_answer({502, "engine_connect", "bad \xff \"quoted\""}, true);
  CHECK(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"));
  const auto json = nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  CHECK(json["error"]["code"] == "engine_connect");
  CHECK(json["error"]["type"] == "server_error");
}
