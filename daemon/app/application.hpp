#pragma once

#include <memory>

#include "daemon/app/settings.hpp"
#include "schema/error.hpp"

namespace driftgate::app {

/// The daemon: everything that `driftgate serve` consists of, wired in the order in which it starts.
class Application {
 public:
  /// Starts each part; the first that fails ends the start, and what runs already is stopped in reverse.
  static schema::Result<std::unique_ptr<Application>> start(const Settings& settings);
  /// Stops in reverse order, each part within its own time. Users' traffic goes on: the router is another
  /// process.
  ~Application();
  /// Hands the router over to a new process, soon; returns at once.
  void hand_over_router();

 private:
  struct Parts;
  explicit Application(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// The body of `driftgate serve`: starts, waits for SIGTERM or SIGINT, stops. SIGUSR2 hands the router over
/// to a new process. Returns the exit code.
int serve(const Settings& settings);

}  // namespace driftgate::app
