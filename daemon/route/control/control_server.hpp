#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/route/worker/core.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// Serves the control socket from a thread of its own, so that no request of the daemon delays users'
/// traffic. The caller holds the lock beside the socket, so that two routers never share one.
class ControlServer {
 public:
  static constexpr std::size_t kMaxConnections = 16;

  /// `on_shutdown` is called from the thread.
  static schema::Result<std::unique_ptr<ControlServer>> start(RouterCore& core,
                                                              std::function<void()> on_shutdown);
  virtual ~ControlServer() = default;

 protected:
  ControlServer() = default;
};

}  // namespace driftgate::route
