#include "daemon/route/worker/router_options.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

TEST_CASE("options survive the trip through a command line") {
  RouterOptions options;
  options.listen = "127.0.0.1:8080";
  options.control_path = "/c";
  options.spool_dir = "/s";
  options.state_path = "/st";
  options.port_file = "/p";
  options.lease_ms = 1'234;
  options.max_body_bytes = 77;
  options.threads = 2;
  options.gateway_api = "https://kubernetes.default.svc";
  options.gateway_parents = "edge/public,edge/inner";
  options.gateway_watched_bp = 0;
  const auto words = to_arguments(options);
  const auto back = parse_router_arguments(words);
  REQUIRE(back);
  CHECK(to_arguments(*back) == words);
  CHECK(back->lease_ms == 1'234);
  CHECK(back->max_body_bytes == 77);
  CHECK(back->gateway_parents == "edge/public,edge/inner");
  CHECK(back->gateway_watched_bp == 0);
}

TEST_CASE("options that make no sense are refused") {
  using Words = std::vector<std::string>;
  const Words good{"--control", "c", "--spool", "s", "--state", "t"};
  REQUIRE(parse_router_arguments(good));
  for (const Words& extra :
       {Words{"--unknown", "1"}, Words{"--listen"}, Words{"--lease-ms", "x"}, Words{"--lease-ms", "0"},
        Words{"--threads", "17"}, Words{"--window-ms", "-1"}, Words{"--max-body-bytes", "1e3"}}) {
    auto words = good;
    words.insert(words.end(), extra.begin(), extra.end());
    CHECK_FALSE(parse_router_arguments(words));
  }
  CHECK_FALSE(parse_router_arguments(Words{}));
}
