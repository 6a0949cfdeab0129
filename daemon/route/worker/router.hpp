#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/control_server.hpp"
#include "daemon/route/worker/core.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "daemon/route/worker/worker.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// The embedded router (docs/design/pipeline.md, "The data plane and its lease"): threads for users' traffic
/// and one for the daemon.
class Router {
 public:
  /// Restores the last routes, candidates at share 0, listens, and opens the control socket last: who
  /// gets an answer there finds everything in place. `conflict` when another router lives on the socket.
  static schema::Result<std::unique_ptr<Router>> start(RouterOptions options);
  /// On listening sockets that exist, a thread for each.
  static schema::Result<std::unique_ptr<Router>> start(RouterOptions options,
                                                       std::vector<base::UniqueFd> sockets);

  [[nodiscard]] std::uint16_t port() const { return core_.port; }
  /// How long drain() waits for at most.
  [[nodiscard]] std::uint32_t drain_time_ms() const {
    return core_.retiring ? core_.options.retire_ms : core_.options.drain_ms;
  }
  /// Readable once the daemon asked the router to end.
  [[nodiscard]] int stop_fd() const { return stop_.get(); }
  /// Stops accepting and waits for requests in flight, at most drain_ms; true when all ended. A router that
  /// another one follows lets idle connections end by themselves and waits for at most retire_ms, also until
  /// the daemon has read what it observed.
  bool drain();
  /// Drains, and notes that the end was in good order.
  void end();

 private:
  Router(RouterOptions options, std::uint64_t seed);
  schema::Result<void> listen(std::vector<base::UniqueFd> sockets);
  bool retire();

  RouterCore core_;
  const std::uint64_t seed_;
  base::UniqueFd stop_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<ControlServer> control_;  ///< last: it ends first
};

/// Runs a router until SIGTERM, SIGINT or a shutdown by the daemon, then drains it; a second signal ends
/// it at once. The exit code of `driftgate router`: 0, 64 for options that make no sense, 74 for the rest.
int run_router(const RouterOptions& options);

}  // namespace driftgate::route
