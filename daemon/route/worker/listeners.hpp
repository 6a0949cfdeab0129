#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// `count` listening sockets on one "ADDRESS:PORT", close-on-exec; with port 0 the first one picks a free
/// port for all. `invalid_argument` for a name in place of an address, `io` when the address cannot be bound.
[[nodiscard]] schema::Result<std::vector<base::UniqueFd>> bind_listeners(const std::string& listen,
                                                                         std::size_t count);

/// The port of a listening TCP socket; `invalid_argument` when the descriptor is none.
[[nodiscard]] schema::Result<std::uint16_t> listening_port(int fd);

/// Whether the sockets are bound to the address that `listen` names; its port 0 matches any port.
[[nodiscard]] bool serves(const std::vector<base::UniqueFd>& listeners, const std::string& listen);

/// Another descriptor of each socket, close-on-exec; `io` when the process has no more.
[[nodiscard]] schema::Result<std::vector<base::UniqueFd>> duplicates(
    const std::vector<base::UniqueFd>& listeners);

/// The router's listening sockets, which the daemon may ask for. Safe from any thread.
class HeldListeners {
 public:
  void hold(std::vector<base::UniqueFd> listeners);
  /// Closes them: a draining router must not keep the address in use.
  void clear();
  /// `conflict` when there are none (any more).
  [[nodiscard]] schema::Result<std::vector<base::UniqueFd>> copies() const;

 private:
  mutable std::mutex mutex_;
  std::vector<base::UniqueFd> held_;
};

/// Asks the router on a control socket for its listening sockets, so that the caller holds them too.
/// `invalid_argument` from a router of an older version, which cannot give them.
[[nodiscard]] schema::Result<std::vector<base::UniqueFd>> ask_for_listeners(
    const std::string& control_path, std::chrono::steady_clock::time_point deadline);

}  // namespace driftgate::route
