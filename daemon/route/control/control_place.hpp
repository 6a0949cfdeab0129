#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// Where the daemon reaches a router: the path of its control socket, and the lock beside it, so that two
/// routers never share one. A router that another one follows steps aside: its socket gets the name
/// `<control socket>.old.<process id>`, and the lock is free for the next. Safe from any thread.
class ControlPlace {
 public:
  explicit ControlPlace(std::string path) : path_(std::move(path)), current_(path_) {}
  /// Removes the socket.
  ~ControlPlace();
  ControlPlace(const ControlPlace&) = delete;
  ControlPlace& operator=(const ControlPlace&) = delete;

  /// `conflict` when another router has the path.
  schema::Result<void> take();
  /// A socket listens on the path, and goes with this object.
  void listens();
  /// Renames the socket and gives the lock up; the new name. `conflict` when that was done already.
  schema::Result<std::string> step_aside();
  /// The reverse, for a router that nobody follows after all. `conflict` when another router has the path.
  schema::Result<void> step_back();

 private:
  const std::string path_;
  std::mutex mutex_;
  std::string current_;  ///< of the socket
  bool listens_ = false;
  base::UniqueFd lock_;
};

/// The control sockets of routers that stepped aside from `control_path` and may still have requests.
[[nodiscard]] std::vector<std::string> sockets_aside(const std::string& control_path);
/// The process id in the name of such a socket; 0 when there is none.
[[nodiscard]] int process_of_socket(const std::string& socket_aside);
/// Whether there is a process with this id.
[[nodiscard]] bool process_lives(int pid);

}  // namespace driftgate::route
