#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/worker/router_options.hpp"
#include "schema/error.hpp"

namespace driftgate::route::gateway {

/// A port of a Kubernetes Service.
struct Service {
  std::string name;
  std::string space;  ///< its namespace
  std::uint16_t port = 0;
  bool operator==(const Service&) const = default;
};

/// A Gateway that serves users, or one of its listeners.
struct Parent {
  std::string space;  ///< its namespace
  std::string name;
  std::string listener;  ///< empty: all of them
  bool operator==(const Parent&) const = default;
};

/// Which HTTPRoutes are written, and what is the same in all of them.
struct Target {
  std::string name;   ///< of this installation: HTTPRoutes of another one in the namespace are left alone
  std::string space;  ///< the namespace of the HTTPRoutes
  std::vector<Parent> parents;
  std::vector<std::string> hostnames;  ///< empty: all that the Gateways serve
  Service router;
  std::uint32_t watched_bp =
      0;  ///< share of a model's requests that pass the router while it has no candidate
};

/// From the options `gateway_*`. `invalid_argument` with the setting and its form.
[[nodiscard]] schema::Result<Target> target_of(const RouterOptions& options);

/// The Service that an engine's URL names, "http://NAME.NAMESPACE.svc:PORT" with or without the domain of the
/// cluster behind it; nothing for any other URL: a Gateway sends requests to Services alone.
[[nodiscard]] std::optional<Service> service_of(std::string_view url);

}  // namespace driftgate::route::gateway
