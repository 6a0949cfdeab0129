#include "daemon/base/authority.hpp"

#include <doctest/doctest.h>

#include <string>

using driftgate::base::is_host;
using driftgate::base::parse_authority;
using driftgate::schema::ErrorCode;

TEST_CASE("a host comes with a port or without") {
  CHECK(parse_authority("engine_1.example", "x")->host == "engine_1.example");
  CHECK_FALSE(parse_authority("engine", "x")->port);
  CHECK(parse_authority("127.0.0.1:0", "x")->port == 0);
  CHECK(parse_authority("a:65535", "x")->port == 65'535);
  CHECK(parse_authority("a:080", "x")->port == 80);
}

TEST_CASE("an IPv6 address stands in brackets, which are taken off") {
  const auto found = parse_authority("[2001:db8::1]:8080", "x");
  REQUIRE(found);
  CHECK(found->host == "2001:db8::1");
  CHECK(found->port == 8080);
  CHECK(parse_authority("[::ffff:127.0.0.1]", "x")->host == "::ffff:127.0.0.1");
}

TEST_CASE("an authority with a fault is refused with the URL that it was taken from") {
  const std::pair<const char*, const char*> faults[] = {
      {"", "no host"},
      {":1", "no host"},
      {"a:", "empty port"},
      {"[::1]:", "empty port"},
      {"[]:1", "bad host or port"},
      {"[::1", "bad host or port"},
      {"[::1]x", "bad host or port"},
      {"[engine]:1", "bad host or port"},
      {"a b:1", "bad host or port"},
      {"a\x80", "bad host or port"},
      {"a:-1", "bad host or port"},
      {"a:+1", "bad host or port"},
      {"a:1x", "bad host or port"},
      {"::1:80", "bad host or port"},
      {"a%2e:1", "bad host name"},
      {"[v1.x]:1", "bad host name"},
      {"a:65536", "bad port"},
      {"a:99999", "bad port"},
      {"u@a:1", "user name or password"},
  };
  for (const auto& [text, message] : faults) {
    CAPTURE(text);
    const auto found = parse_authority(text, "http://u");
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::invalid_argument);
    CHECK(found.error().message.starts_with(std::string(message) + " in 'http://u': write host:port"));
  }
}

TEST_CASE("a Host header is a host with or without a port, and nothing else") {
  for (const char* text :
       {"a", "LOCALHOST", "my_service:8080", "127.0.0.1:65535", "[::1]", "[::1]:80", "a:080"}) {
    CAPTURE(text);
    CHECK(is_host(text));
  }
  for (const char* text :
       {"",         ":80", "a:",   "a:65536", "a:8x", "a:-1", "a b",   "a/b",  "u@a",  "a,b",     "a:1:2",
        "http://a", "::1", "[::1", "[v1.x]",  "a?b",  "a#b",  "\"a\"", "a\tb", "a%41", "\xc3\xa4"}) {
    CAPTURE(text);
    CHECK_FALSE(is_host(text));
  }
}
