#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

struct SpawnOptions {
  RouterOptions router;
  std::string log_path;  ///< standard output and error of the router, appended
  std::string executable = "/proc/self/exe";
  std::vector<std::string> words = {"router"};  ///< before the router's own arguments
  std::chrono::milliseconds deadline{10'000};   ///< to its first answer
  std::chrono::milliseconds answer{5'000};      ///< for a running router to answer
  /// Unix socket of a service manager that starts routers (launcher.hpp); empty: this process does.
  std::string launcher{};
  std::function<void(std::string_view level, const std::string& text)> log{};  ///< may be empty
  /// Listening sockets that a new router gets copies of, a thread for each; empty: it binds its own.
  std::vector<base::UniqueFd> listeners{};
};

struct RouterProcess {
  RouterInfo info;
  bool adopted = false;  ///< it was running already
};

/// The router that answers on the control socket; `unavailable` when nothing listens there,
/// `deadline_exceeded` when something does and is silent.
[[nodiscard]] schema::Result<RouterProcess> adopt_router(
    const std::string& control_path, std::chrono::milliseconds answer = std::chrono::milliseconds(5'000));

/// Adopts a running router or starts one in a session of its own, or by the launcher, with no tie to this
/// process but the control socket and copies of `listeners`: it outlives the caller. Where the launcher
/// starts none, this process does, and logs it: a router in the caller's unit is better than none. Returns
/// once it answers. One that does not within the deadline is killed.
[[nodiscard]] schema::Result<RouterProcess> spawn_router(const SpawnOptions& options);

}  // namespace driftgate::route
