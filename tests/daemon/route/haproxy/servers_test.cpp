#include "daemon/route/haproxy/servers.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;
using namespace driftgate::route::haproxy;

namespace {

// As HAProxy 2.6 prints it.
constexpr const char* kShown =
    "1\n"
    "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight "
    "srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state "
    "srv_agent_state "
    "bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr "
    "srv_agent_addr srv_agent_port\n"
    "6 driftgate_1 1 router 127.0.0.1 2 0 0 0 655 1 0 2 0 0 0 0 - 18081 - 0 0 - - 0\n"
    "6 driftgate_1 2 v1 127.0.0.1 2 0 1 1 655 1 0 2 0 0 0 0 - 1001 - 0 0 - - 0\n"
    "6 driftgate_1 5 old ::1 0 1 0 0 0 1 0 0 0 0 0 0 - 18020 - 0 0 - - 0\n\n";

bool has(const std::vector<std::string>& commands, const std::string& command) {
  return std::ranges::find(commands, command) != commands.end();
}

}  // namespace

TEST_CASE("servers are read with address, port, weight and state") {
  const auto servers = parse_servers(kShown);
  REQUIRE(servers.size() == 2);
  CHECK(servers[0] == Server{"v1", "127.0.0.1", 1001, 1, true});
  CHECK(servers[1] == Server{"old", "::1", 18'020, 0, false});
  CHECK(parse_servers("No such backend.\n").empty());
  CHECK(parse_servers("").empty());
}

TEST_CASE("a route's engines become servers, the incumbent alone with a weight") {
  auto route = sample_route();
  route.fallback->url = "http://[::1]:9";
  const auto servers = servers_of(route);
  REQUIRE(servers);
  REQUIRE(servers->size() == 3);
  CHECK((*servers)[0] == Server{"v1", "127.0.0.1", 1001, 1, true});
  CHECK((*servers)[1] == Server{"v2", "127.0.0.1", 1002, 0, true});
  CHECK(server_text((*servers)[2]) == "v0 [::1]:9 weight 0 pool-max-conn -1 pool-purge-delay 5s");
  route.fallback = route.incumbent;
  CHECK(servers_of(route)->size() == 2);
  route.candidate->url = "http://" + std::string(100, 'a') + ":1";  // longer than a name can be
  CHECK_FALSE(servers_of(route));
  for (const char* url : {"https://127.0.0.1:1002", "http://127.0.0.1:1002/team-a"}) {
    route.candidate->url = url;
    const auto refused = servers_of(route);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == driftgate::schema::ErrorCode::unsupported);
    CHECK(refused.error().message.find(url) != std::string::npos);
  }
}

TEST_CASE("what is missing or differs is set before a route, and what is not wanted goes after it") {
  const auto held = parse_servers(kShown);
  const std::vector<Server> wanted{{"v2", "127.0.0.1", 1002, 1, true},
                                   {"v1", "127.0.0.9", 1001, 0, true},
                                   {"old", "::1", 18'020, 0, true}};
  const auto before = commands_before("driftgate_1", wanted, held);
  CHECK(
      has(before, "add server driftgate_1/v2 127.0.0.1:1002 weight 1 pool-max-conn -1 pool-purge-delay 5s"));
  CHECK(has(before, "set server driftgate_1/v2 state ready"));
  CHECK(has(before, "set server driftgate_1/v1 addr 127.0.0.9 port 1001"));
  CHECK(has(before, "set server driftgate_1/old state ready"));
  CHECK(before.size() == 4);
  CHECK(commands_before("driftgate_1", {held[0]}, held).empty());
  // The previous incumbent loses its weight once nothing names it as the incumbent any more.
  const auto after = commands_after("driftgate_1", {wanted[0], wanted[1]}, held);
  CHECK(has(after, "set server driftgate_1/v1 weight 0"));
  CHECK(has(after, "del server driftgate_1/old"));
  CHECK(after.size() == 2);
  CHECK(commands_after("driftgate_1", {}, {held[0]}) ==
        std::vector<std::string>{"set server driftgate_1/v1 state maint"});
}
