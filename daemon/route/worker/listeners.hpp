#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/route/control/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// `count` listening sockets on one "ADDRESS:PORT", close-on-exec; with port 0 the first one picks a free
/// port for all. `invalid_argument` for a name in place of an address, `io` when the address cannot be bound.
[[nodiscard]] schema::Result<std::vector<UniqueFd>> bind_listeners(const std::string& listen,
                                                                   std::size_t count);

/// The port of a listening TCP socket; `invalid_argument` when the descriptor is none.
[[nodiscard]] schema::Result<std::uint16_t> listening_port(int fd);

/// Whether sockets that are bound already serve what `listen` asks for; port 0 asks for any.
[[nodiscard]] bool serves(const std::vector<UniqueFd>& listeners, const std::string& listen);

/// Another descriptor of each socket, close-on-exec; `io` when the process has no more.
[[nodiscard]] schema::Result<std::vector<UniqueFd>> duplicates(const std::vector<UniqueFd>& listeners);

/// The router's listening sockets, for the daemon to ask for. Safe from any thread.
class HeldListeners {
 public:
  void hold(std::vector<UniqueFd> listeners);
  /// Gives them up: what drains must not keep the address alive.
  void clear();
  /// `conflict` when there are none (any more).
  [[nodiscard]] schema::Result<std::vector<UniqueFd>> copies() const;

 private:
  mutable std::mutex mutex_;
  std::vector<UniqueFd> held_;
};

/// Asks the router on a control socket for its listening sockets, so that the caller holds them too.
/// `invalid_argument` from a router of an older version, which cannot give them.
[[nodiscard]] schema::Result<std::vector<UniqueFd>> ask_for_listeners(
    const std::string& control_path, std::chrono::steady_clock::time_point deadline);

}  // namespace driftgate::route
