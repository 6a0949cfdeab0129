#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.hpp"
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
  ~ControlServer();

 private:
  struct Peer {
    base::UniqueFd socket;
    std::string buffer;
  };
  ControlServer(RouterCore& core, std::function<void()> on_shutdown, base::UniqueFd listener,
                base::UniqueFd wake);
  void run();
  void accept_one();
  bool serve(Peer& peer);
  void drop_waiting();

  RouterCore& core_;
  const std::function<void()> on_shutdown_;
  const base::UniqueFd listener_;
  const base::UniqueFd wake_;
  std::vector<Peer> peers_;
  bool disconnect_ = false;  ///< end all connections once what is ready was served
  std::thread thread_;       // last: it uses the members above
};

}  // namespace driftgate::route
