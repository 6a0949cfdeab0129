#include "daemon/route/relay/endpoint.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

TEST_CASE("engine URLs are host and port, maybe under TLS and under a path") {
  const auto endpoint = parse_engine_url("http://127.0.0.1:8081");
  REQUIRE(endpoint);
  CHECK(endpoint->host == "127.0.0.1");
  CHECK(endpoint->port == 8081);
  CHECK(endpoint->authority == "127.0.0.1:8081");
  CHECK(parse_engine_url("http://[::1]:80")->host == "::1");
  CHECK_FALSE(endpoint->tls);
  CHECK(endpoint->prefix.empty());
  const auto gateway = parse_engine_url("https://gw.example:443/team-a/llama.2");
  REQUIRE(gateway);
  CHECK(gateway->tls);
  CHECK(gateway->host == "gw.example");
  CHECK(gateway->authority == "gw.example:443");
  CHECK(gateway->host_field() == "gw.example");
  CHECK(gateway->prefix == "/team-a/llama.2");
  CHECK(parse_engine_url("https://a:80")->host_field() == "a:80");
  CHECK(parse_engine_url("http://[::1]:80")->host_field() == "[::1]");
  for (const char* url : {"",
                          "127.0.0.1:1",
                          "ftp://a:1",
                          "https://a",
                          "http://a:1/x/",
                          "http://a:1//x",
                          "http://a:1/x?y",
                          "http://a:1/x y",
                          "http://a:1/x\r\nHost: b",
                          "http://a",
                          "http://a:",
                          "http://:1",
                          "http://a:0",
                          "http://a:65536",
                          "http://a:1/",
                          "http://a:1x",
                          "http://u@a:1",
                          "http://::1:80",
                          "http://a b:1",
                          "http://[]:1",
                          "http://a:-1"}) {
    CAPTURE(url);
    CHECK_FALSE(parse_engine_url(url));
  }
}
