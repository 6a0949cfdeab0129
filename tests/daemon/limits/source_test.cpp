#include "daemon/limits/source.hpp"

#include <doctest/doctest.h>

using driftgate::limits::Source;

TEST_CASE("an IPv4 address is a client of its own, however it is written") {
  CHECK(Source::of("192.0.2.1") == Source::of("192.0.2.1"));
  CHECK(Source::of("192.0.2.1") != Source::of("192.0.2.2"));
  CHECK(Source::of("192.0.2.1") == Source::of("::ffff:192.0.2.1"));
}

TEST_CASE("IPv6 addresses of one /64 are one client") {
  CHECK(Source::of("2001:db8:0:1::1") == Source::of("2001:db8:0:1:ffff:ffff:ffff:ffff"));
  CHECK(Source::of("2001:db8:0:1::1") != Source::of("2001:db8:0:2::1"));
  CHECK(Source::of("fe80::1%eth0") == Source::of("fe80::2"));
}

TEST_CASE("an address is never taken for one of the other family, and what is none counts together") {
  CHECK(Source::of("::1") != Source::of("0.0.0.1"));
  CHECK(Source::of("c000:0201::") != Source::of("192.0.2.1"));
  CHECK(Source::of("") == Source::of("no address"));
  CHECK(Source::of("") != Source::of("0.0.0.0"));
}
