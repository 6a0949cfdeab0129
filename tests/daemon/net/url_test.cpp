#include "daemon/net/url.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using driftgate::net::parse_daemon_url;
using driftgate::net::parse_url;
using driftgate::schema::ErrorCode;

TEST_CASE("URLs are taken apart into host, port and target") {
  const auto plain = parse_url("http://127.0.0.1:8080");
  REQUIRE(plain);
  CHECK(plain->host == "127.0.0.1");
  CHECK(plain->port == 8080);
  CHECK(plain->target == "/");
  const auto v6 = parse_url("http://[::1]/v1/models?x=1");
  REQUIRE(v6);
  CHECK(v6->host == "::1");
  CHECK(v6->authority() == "[::1]:80");
  CHECK(v6->target == "/v1/models?x=1");
  const auto query = parse_url("http://a?x");
  REQUIRE(query);
  CHECK(query->target == "/?x");
}

TEST_CASE("URLs with a trap in them are refused") {
  const std::vector<std::string> bad{
      "",           "a",           "ftp://a",         "http://",        "http://:1",
      "http://a:",  "http://a:0",  "http://a:65536",  "http://a:1x",    "http://u@a",
      "http://a#f", "http://a b",  "http://a\r\nX:1", "http://[::1",    "http://[::1]x",
      "http://a\\", "http://[g]/", "http://a%2e",     "http://[::1]:x", "http://a\x80"};
  for (const std::string& url : bad) {
    CAPTURE(url);
    CHECK_FALSE(parse_url(url));
  }
  CHECK(parse_url("https://a").error().code == ErrorCode::unsupported);
  CHECK_FALSE(parse_url("http://" + std::string(3000, 'a')));
}

TEST_CASE("percent encoding round-trips every byte but NUL") {
  std::string bytes;
  for (int i = 1; i < 256; ++i) bytes += static_cast<char>(i);
  const auto back = driftgate::net::percent_decode(driftgate::net::percent_encode(bytes));
  REQUIRE(back);
  CHECK(*back == bytes);
  for (const char* cut : {"%", "%2", "a%4", "%g0", "%0g"}) CHECK_FALSE(driftgate::net::percent_decode(cut));
}

TEST_CASE("joining a base and a path leaves exactly one slash") {
  using driftgate::net::join_target;
  CHECK(join_target("/", "/v1/models") == "/v1/models");
  CHECK(join_target("/engine/", "v1/models") == "/engine/v1/models");
}

TEST_CASE("the daemon's own URL may be https, with port 443 unless one is given") {
  const auto url = parse_daemon_url("https://gate.example/base");
  REQUIRE(url);
  CHECK(url->tls);
  CHECK(url->port == 443);
  CHECK(url->base() == "https://gate.example:443");
  CHECK(url->target == "/base");
  CHECK(parse_daemon_url("https://gate.example:7433")->port == 7433);
  CHECK(!parse_daemon_url("http://gate.example")->tls);
  CHECK(!parse_daemon_url("https://"));
  CHECK(!parse_daemon_url("https://a b"));
  CHECK(parse_url("https://gate.example").error().code == ErrorCode::unsupported);
}
