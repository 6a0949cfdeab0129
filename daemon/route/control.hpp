#pragma once

#include <string>
#include <string_view>

#include "daemon/route/core.hpp"

namespace driftgate::route {

/// The answer to one control request, both JSON. Requests are {"op": NAME, …} with op one of apply,
/// observe, heartbeat, windows, acknowledge, spool_path, drop_spool, capabilities, shutdown; answers
/// are {"ok": true, …} or {"ok": false, "error": {"code", "message"}}. `stop` becomes true on shutdown.
[[nodiscard]] std::string answer_control(RouterCore& core, std::string_view request, bool& stop);

}  // namespace driftgate::route
