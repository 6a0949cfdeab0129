#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/worker/process_threads.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// A router that another process than the daemon shall start, so that it belongs to that one's control group
/// and limits, and not to the daemon's: the service manager, by a socket that it listens on (Accept=yes) and
/// a `driftgate router --launched` for each connection, which has the connection as standard input.
struct LaunchOrder {
  std::string executable;          ///< the program that the router is to run, whatever has its name by then
  std::vector<std::string> words;  ///< its command line
  std::string log_path;            ///< its standard output and error, appended
};

/// Sends the order and copies of `listeners` (16 at most) to whoever listens on `launcher`, and waits for the
/// process that becomes the router. `unavailable` when nobody listens; what it says when it cannot: it takes
/// `router OPTIONS…` of its own program alone, or of one that had its name before an upgrade.
[[nodiscard]] schema::Result<ProcessHandle> launch_by(const std::string& launcher, const LaunchOrder& order,
                                                      const std::vector<base::UniqueFd>& listeners,
                                                      std::chrono::steady_clock::time_point deadline);

/// `driftgate router --launched`: takes the order from standard input and becomes that router. Returns only
/// when it cannot, with the exit code; the daemon has been told why.
[[nodiscard]] int become_launched_router();

}  // namespace driftgate::route
