#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "daemon/route/haproxy/files.hpp"
#include "daemon/route/haproxy/servers.hpp"
#include "daemon/route/worker/router_options.hpp"

namespace driftgate::route::haproxy {

using BackendServers = std::map<std::string, std::vector<Server>>;

/// What the configuration says.
struct ConfigFacts {
  const RouterOptions& options;
  const Files& files;
  std::string router;  ///< address of this router
  std::string secret;
  unsigned user = 0;         ///< who may connect to the runtime socket
  std::size_t backends = 1;  ///< for models
  const BackendServers& servers;
};

/// How HAProxy names itself in Via: a request that comes back to it is refused.
[[nodiscard]] std::string haproxy_mark(const std::string& secret);

/// A whole configuration for HAProxy 2.6, which can stand alone or beside others (`haproxy -f A -f B`): the
/// frontend that places requests by the maps (the same decision as decide() with KeyHash::text), a backend
/// for each model, the router's, and the check of the lease.
[[nodiscard]] std::string config_text(const ConfigFacts& facts);

}  // namespace driftgate::route::haproxy
