#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/route/router_driver.hpp"
#include "daemon/route/router_options.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

struct SpawnOptions {
  RouterOptions router;
  std::string log_path;  ///< standard output and error of the router, appended
  std::string executable = "/proc/self/exe";
  std::vector<std::string> words = {"router"};  ///< before the router's own arguments
  std::chrono::milliseconds deadline{10'000};   ///< to its first answer
};

struct RouterProcess {
  RouterInfo info;
  bool adopted = false;  ///< it lived already
};

/// The router that answers on the control socket, or nothing when nobody does.
[[nodiscard]] schema::Result<RouterProcess> adopt_router(const std::string& control_path);

/// Adopts a living router or starts one in a session of its own, with no tie to this process but the
/// control socket: it outlives the caller. Returns once it answers.
[[nodiscard]] schema::Result<RouterProcess> spawn_router(const SpawnOptions& options);

}  // namespace driftgate::route
