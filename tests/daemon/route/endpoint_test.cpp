#include "daemon/route/relay/endpoint.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

TEST_CASE("engine URLs are host and port and nothing else") {
  const auto endpoint = parse_engine_url("http://127.0.0.1:8081");
  REQUIRE(endpoint);
  CHECK(endpoint->host == "127.0.0.1");
  CHECK(endpoint->port == 8081);
  CHECK(endpoint->authority == "127.0.0.1:8081");
  CHECK(parse_engine_url("http://[::1]:80")->host == "::1");
  for (const char* url : {"", "127.0.0.1:1", "https://a:1", "http://a", "http://a:", "http://:1",
                          "http://a:0", "http://a:65536", "http://a:1/", "http://a:1x", "http://u@a:1",
                          "http://::1:80", "http://a b:1", "http://[]:1", "http://a:-1"}) {
    CAPTURE(url);
    CHECK_FALSE(parse_engine_url(url));
  }
}
