#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "daemon/base/unique_fd.hpp"
#include "tests/daemon/route/gateway/cluster.hpp"
#include "tests/daemon/route/test_router.hpp"

namespace driftgate::route {

/// Waits until `condition` holds; false after two minutes.
bool holds_in_time(const std::function<bool()>& condition);

/// The data planes that the conformance tests run over: each serves users on `port`, is steered by a router
/// in this process, and can be killed and started again.
class EmbeddedPlane {
 public:
  explicit EmbeddedPlane(const TestRouter::Change& change = {});

  [[nodiscard]] std::uint16_t port() const { return router_.port(); }
  TestRouter& router() { return router_; }
  /// What serves users is replaced without a word.
  void restart() { router_.restart(); }

 private:
  TestRouter router_;
};

/// A Gateway that accepts what it is told. The engines of these tests are no Services, so that it sends every
/// request to the router: users are on the router's port.
class GatewayPlane {
 public:
  explicit GatewayPlane(const TestRouter::Change& change = {});

  [[nodiscard]] std::uint16_t port() const { return router_.port(); }
  TestRouter& router() { return router_; }
  void restart() { router_.restart(); }

 private:
  gateway::Cluster cluster_;
  gateway::Controller controller_;
  TestRouter router_;
};

#ifdef DRIFTGATE_HAPROXY

/// A real HAProxy.
class HaproxyProcess {
 public:
  /// Starts one and waits until its runtime socket answers.
  HaproxyProcess(std::string config, std::string socket);
  ~HaproxyProcess() { kill(); }
  void start();
  void kill();

 private:
  const std::string config_;
  const std::string socket_;
  pid_t pid_ = -1;
};

class HaproxyPlane {
 public:
  explicit HaproxyPlane(const TestRouter::Change& change = {});

  [[nodiscard]] std::uint16_t port() const { return port_; }
  TestRouter& router() { return *router_; }
  HaproxyProcess& haproxy() { return *haproxy_; }
  void restart();

 private:
  base::UniqueFd held_, held_for_router_;  ///< keep the ports from others
  std::uint16_t port_ = 0;
  std::optional<TestRouter> router_;
  std::optional<HaproxyProcess> haproxy_;
};

#endif

/// Applies the route under the next revision and waits until the plane acts on it.
template <typename Plane>
void apply_to(Plane& plane, ModelRoute route) {
  static std::uint64_t revision = 0;
  route.revision = ++revision;
  const auto in_force = [&] {
    if (!plane.router().driver().apply(route)) return false;
    const auto observed = plane.router().driver().observe();
    return observed && observed->size() == 1 && !observed->front().reverted &&
           observed->front().route == route;
  };
  if (!holds_in_time(in_force)) throw std::runtime_error("the plane does not take the route");
}

}  // namespace driftgate::route
