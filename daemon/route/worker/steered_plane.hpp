#pragma once

#include <string>
#include <vector>

#include "daemon/route/control/driver.hpp"
#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// A data plane that serves users in front of this router and is steered by it: HAProxy
/// (daemon/route/haproxy), or a Gateway of Kubernetes (daemon/route/gateway). The router keeps the routes,
/// the lease and the telemetry, mirrors what the plane sends it, and serves what the plane cannot place. Safe
/// from any thread.
class SteeredPlane {
 public:
  virtual ~SteeredPlane() = default;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;
  /// The plane places requests by the hash of their keys and counts them itself, and the router does it in
  /// the same way for the others. Otherwise each request that comes to the router is the router's to place
  /// and to count.
  [[nodiscard]] virtual bool places() const = 0;
  /// Hands the effective routes over and waits until the plane holds that of `model`, at most some tenths of
  /// a second. `unavailable` or `deadline_exceeded` when it does not yet: it is being tried again; `conflict`
  /// when it holds a newer route than this router; `unsupported` for a route that it cannot hold.
  virtual schema::Result<void> settle(const std::string& model) = 0;
  /// Effective routes have changed: hands them over soon. Returns at once.
  virtual void wake() = 0;
  /// Those of these effective routes that the plane was seen to hold within the last seconds, as it acts on
  /// them: without exposure when it takes the lease for expired.
  [[nodiscard]] virtual std::vector<ObservedRoute> held(std::vector<ObservedRoute> routes) const = 0;
  /// The plane may expose candidates: the lease holds, and the plane was seen lately to hold these routes.
  [[nodiscard]] virtual bool may_expose() const = 0;
  /// What a request shows in `driftgate-plane` that the plane has placed and counts itself; "" for a plane
  /// that places none.
  [[nodiscard]] virtual const std::string& secret() const = 0;
  /// Why the plane could not be steered when that was last tried; "" when it could.
  [[nodiscard]] virtual std::string fault() const = 0;
};

}  // namespace driftgate::route
