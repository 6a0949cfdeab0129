#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/route/worker/router_page.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// What was lost with a router that was replaced.
struct RouterLoss {
  /// killed (it ended without being told to), hung (the daemon killed it), exited (told to), handed_over (it
  /// ended when another router had followed it on the same sockets)
  std::string why;
  std::string reason;  ///< what was seen, for people
  int pid = 0;
  std::string router_id;
  int replacement_pid = 0;
  std::string replacement_id;
  std::int64_t down_ms = 0;  ///< from when it was seen to serve no more until the next one answered
  /// Its shared page, with what was in flight; nothing for a router of an older version.
  std::optional<PageContents> page{};
  /// Connections with a request that a hung router had not begun to read; nothing when it was not looked for.
  std::optional<std::uint64_t> unread{};
  std::string note{};  ///< the file that keeps this until it is recorded; empty: none
};

/// Requests that the router had started and not answered completely.
[[nodiscard]] std::uint64_t broken_requests(const RouterLoss& loss);
/// Closed telemetry windows that no daemon had acknowledged.
[[nodiscard]] std::uint64_t lost_windows(const RouterLoss& loss);

/// Writes the loss beside the control socket, so that a daemon that dies before it recorded it leaves it to
/// the next one. Sets `note`.
schema::Result<void> keep_note(const std::string& control_path, RouterLoss& loss);
/// Losses that were kept and not dropped since, oldest first; what cannot be read is left out.
[[nodiscard]] std::vector<RouterLoss> kept_notes(const std::string& control_path);
/// It is recorded.
void drop_note(const RouterLoss& loss);

}  // namespace driftgate::route
