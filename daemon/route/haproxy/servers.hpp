#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

// The versions of a model are servers of its backend in HAProxy, added and removed at run time.
namespace driftgate::route::haproxy {

/// One server. The incumbent has weight 1 and takes what is tried again; the others have weight 0 and get
/// what names them.
struct Server {
  std::string name;     ///< the version
  std::string address;  ///< numeric, IPv6 without brackets
  std::uint16_t port = 0;
  std::uint32_t weight = 0;
  bool ready = true;  ///< not in maintenance
  bool operator==(const Server&) const = default;
};

/// The servers that a route needs, the incumbent first. Names of hosts are resolved, which may take its time:
/// `unavailable` when one has no address,
/// `unsupported` for an engine over https or under a path.
[[nodiscard]] schema::Result<std::vector<Server>> servers_of(const ModelRoute& route);

/// The servers in HAProxy's answer to `show servers state BACKEND`, without the router's own.
[[nodiscard]] std::vector<Server> parse_servers(std::string_view shown);

/// The server of `servers` with that name, or null.
[[nodiscard]] const Server* find_server(const std::vector<Server>& servers, std::string_view name);

/// Commands that add what is missing and correct addresses and states, so that a route may name all of
/// `wanted`. Weights only grow: the previous incumbent keeps its own.
[[nodiscard]] std::vector<std::string> commands_before(const std::string& backend,
                                                       const std::vector<Server>& wanted,
                                                       const std::vector<Server>& held);
/// Commands for when the route is in force: they take their weight from servers that are not the incumbent,
/// put those that are not wanted into maintenance, and delete those that are. HAProxy refuses to delete one
/// that still answers requests; it goes another time.
[[nodiscard]] std::vector<std::string> commands_after(const std::string& backend,
                                                      const std::vector<Server>& wanted,
                                                      const std::vector<Server>& held);

/// A server as a line of a configuration file, and behind `add server`: "NAME ADDRESS:PORT weight N".
[[nodiscard]] std::string server_text(const Server& server);

}  // namespace driftgate::route::haproxy
