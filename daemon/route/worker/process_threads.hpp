#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// One thread of a process as the kernel sees it (proc(5), /proc/PID/task/TID/stat and schedstat).
struct ThreadState {
  int tid = 0;
  char state = '?';  ///< R running or runnable, S sleeping, D waiting for a disk, T stopped, …
  std::chrono::milliseconds cpu{0};     ///< that it has used, to a hundredth of a second
  std::chrono::milliseconds waited{0};  ///< runnable, for a processor; 0 where the kernel does not count it
};

/// The threads of a process; none when it is gone.
[[nodiscard]] std::vector<ThreadState> threads_of(int pid);

/// A process held by a descriptor (pidfd), so that no later process with its number is meant.
class ProcessHandle {
 public:
  /// Holds the peer process of a connected Unix socket; `unavailable` when it is gone already.
  static schema::Result<ProcessHandle> of_peer(int socket);
  /// `unavailable` when there is none.
  static schema::Result<ProcessHandle> of(int pid);

  [[nodiscard]] int pid() const { return pid_; }
  /// Readable once the process has ended.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool ended() const;
  /// Waits for the end; false when the deadline came first.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const;
  /// SIGKILL.
  void kill() const;

 private:
  ProcessHandle(int pid, base::UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}
  int pid_;
  base::UniqueFd fd_;
};

/// How many accepted connections to a local TCP port hold bytes that their process has not read: requests
/// that nobody looks at when the process hangs. Nothing when /proc/net cannot be read.
[[nodiscard]] std::optional<std::size_t> unread_connections(int port);

}  // namespace driftgate::route
