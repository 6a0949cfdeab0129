#include "daemon/base/authority.hpp"

#include <doctest/doctest.h>

#include <string>

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
      {"", "no host in 'http://u'"},
      {":1", "no host in 'http://u'"},
      {"[]:1", "no host in 'http://u'"},
      {"a:", "empty port in 'http://u'"},
      {"[::1]:", "empty port in 'http://u'"},
      {"[::1", "no ']' after the IPv6 address in 'http://u'"},
      {"[::1]x", "bytes after ']' in 'http://u'"},
      {"[engine]:1", "bad IPv6 address in 'http://u'"},
      {"a b:1", "bad host name in 'http://u'"},
      {"u@a:1", "bad host name in 'http://u'"},
      {"a\x80", "bad host name in 'http://u'"},
      {"a:-1", "bad port in 'http://u': write a number from 1 to 65535"},
      {"a:+1", "bad port in 'http://u': write a number from 1 to 65535"},
      {"a:1x", "bad port in 'http://u': write a number from 1 to 65535"},
      {"a:65536", "bad port in 'http://u': write a number from 1 to 65535"},
      {"::1:80", "no host in 'http://u'"},
  };
  for (const auto& [text, message] : faults) {
    CAPTURE(text);
    const auto found = parse_authority(text, "http://u");
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::invalid_argument);
    CHECK(found.error().message == message);
  }
}
