#include "daemon/net/outgoing.hpp"

#include <doctest/doctest.h>

using driftgate::net::check_outgoing;
using driftgate::net::is_internal_address;
using driftgate::net::OutgoingPolicy;
using driftgate::net::parse_url;

TEST_CASE("addresses that are not on the public internet are internal") {
  for (const char* address : {"127.0.0.1",
                              "127.8.9.1",
                              "0.0.0.0",
                              "10.1.2.3",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.168.1.1",
                              "169.254.169.254",
                              "100.64.0.1",
                              "224.0.0.1",
                              "255.255.255.255",
                              "192.0.2.1",
                              "::1",
                              "::",
                              "fe80::1",
                              "fc00::1",
                              "fd12::1",
                              "ff02::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "64:ff9b::7f00:1",
                              "not an address"}) {
    CAPTURE(address);
    CHECK(is_internal_address(address));
  }
  for (const char* address :
       {"1.1.1.1", "172.32.0.1", "9.255.255.255", "2606:4700::1111", "::ffff:8.8.8.8"}) {
    CAPTURE(address);
    CHECK_FALSE(is_internal_address(address));
  }
}

TEST_CASE("only listed hosts are allowed unless public hosts are") {
  OutgoingPolicy policy;
  CHECK(check_outgoing(*parse_url("http://LOCALHOST:1"), policy));
  const auto refused = check_outgoing(*parse_url("http://engine.example:1"), policy);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("engines.allowed_hosts") != std::string::npos);
  policy.public_hosts = true;
  CHECK(check_outgoing(*parse_url("http://engine.example:1"), policy));
}

TEST_CASE("a public host that resolves to an internal address is not connected to") {
  const OutgoingPolicy policy{.allowed_hosts = {}, .public_hosts = true};
  const auto url = *parse_url("http://127.0.0.1:1");
  driftgate::net::HttpClient client(url, driftgate::net::with_policy({}, url, policy));
  const auto response = client.send({});
  REQUIRE_FALSE(response);
  CHECK(response.error().code == driftgate::schema::ErrorCode::forbidden);
}
