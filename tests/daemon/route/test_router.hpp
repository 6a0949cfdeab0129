#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/worker/router.hpp"
#include "tests/daemon/route/sample_route.hpp"
#include "tests/daemon/route/scripted_engine.hpp"
#include "tests/daemon/route/temporary_folder.hpp"
#include "tests/daemon/route/test_client.hpp"

namespace driftgate::route {

/// A router in this process with short windows and its driver.
class TestRouter {
 public:
  using Change = std::function<void(RouterOptions&)>;
  explicit TestRouter(const Change& change = {});
  /// The same with a route that is applied.
  explicit TestRouter(const ModelRoute& route, const Change& change = {}) : TestRouter(change) {
    apply(route);
  }

  [[nodiscard]] std::uint16_t port() const { return router_->port(); }
  [[nodiscard]] const RouterOptions& options() const { return options_; }
  RouterDriver& driver() { return driver_; }
  Router& router() { return *router_; }
  /// Ends the router and starts one with the same files.
  void restart();
  void end() { router_.reset(); }
  /// Starts one with the same files on copies of listening sockets.
  void start_on(const std::vector<base::UniqueFd>& sockets);

  /// Applies a route of model "tiny" with the next revision.
  void apply(ModelRoute route);
  /// Waits for `count` observations; all windows read so far hold them.
  std::vector<Observation> observations(std::size_t count);
  /// What the router says of the engines and their breakers.
  HealthReport health();
  EngineStatus health_of(const std::string& url);
  /// Waits until the breaker of an engine is in that state.
  void await_breaker(const std::string& url, BreakerState state);
  /// Waits until `done` holds for the windows read so far.
  std::vector<Window> windows_until(const std::function<bool(const std::vector<Window>&)>& done);

 private:
  TemporaryFolder folder_;
  RouterOptions options_;
  RouterDriver driver_;
  std::unique_ptr<Router> router_;
  std::uint64_t revision_ = 0;
  WindowPosition last_window_;
  std::vector<Window> windows_;
};

/// A route with these engines; an empty URL leaves the candidate out.
[[nodiscard]] ModelRoute route_to(const std::string& incumbent, const std::string& candidate = {},
                                  std::uint32_t candidate_bp = 0);

/// A request body for model "tiny".
[[nodiscard]] std::string tiny_request(bool stream = false, const std::string& more = {});

}  // namespace driftgate::route
