#include "daemon/net/url.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using driftgate::net::engine_base_url;
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
  CHECK(parse_url("ftp://a").error().code == ErrorCode::invalid_argument);
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

TEST_CASE("a URL may be https, with port 443 unless one is given") {
  const auto url = parse_url("https://gate.example/base");
  REQUIRE(url);
  CHECK(url->tls);
  CHECK(url->port == 443);
  CHECK(url->base() == "https://gate.example:443");
  CHECK(url->host_field() == "gate.example");
  CHECK(url->target == "/base");
  const auto other = parse_url("https://gate.example:7433");
  REQUIRE(other);
  CHECK(other->port == 7433);
  CHECK(other->host_field() == "gate.example:7433");
  CHECK(parse_url("http://[::1]")->host_field() == "[::1]");
  CHECK(parse_url("http://[::1]:443")->host_field() == "[::1]:443");
  CHECK(!parse_url("http://gate.example")->tls);
  CHECK(!parse_url("https://"));
  CHECK(!parse_url("https://a b"));
}

TEST_CASE("the base URL of an engine is kept without what requests bring themselves") {
  const std::pair<const char*, const char*> kept[] = {
      {"http://127.0.0.1:8000", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000/", "http://127.0.0.1:8000"},
      {"http://a/v1", "http://a:80"},
      {"https://gw.example/team-a/llama/v1/", "https://gw.example:443/team-a/llama"},
      {"https://gw.example:8443/team_a.b~c", "https://gw.example:8443/team_a.b~c"},
      {"https://[::1]/a/v1", "https://[::1]:443/a"},
  };
  for (const auto& [text, base] : kept) {
    CAPTURE(text);
    const auto read = engine_base_url(text);
    REQUIRE(read);
    CHECK(*read == base);
    CHECK(engine_base_url(*read) == *read);
  }
  for (const char* text : {"https://a/x?key=1", "https://a//x", "https://a/x/../y", "https://a/./x",
                           "https://a/%2e", "https://a/x;y", "ftp://a", "https://user:pass@a/x"}) {
    CAPTURE(text);
    const auto read = engine_base_url(text);
    REQUIRE(!read);
    CHECK(read.error().code == ErrorCode::invalid_argument);
  }
}
