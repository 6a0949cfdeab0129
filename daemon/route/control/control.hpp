#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/worker/core.hpp"

namespace driftgate::route {

/// What accompanies an answer.
struct ControlEffects {
  bool stop = false;                        ///< the router shall stop
  bool disconnect = false;                  ///< every connection shall end: the path leads elsewhere now
  std::vector<base::UniqueFd> descriptors;  ///< sent beside the answer
};

/// The answer to one control request, both JSON. Requests are {"op": NAME, …} with op one of apply,
/// apply_all, observe, heartbeat, windows, acknowledge, health, spool_path, drop_spool, capabilities,
/// listeners, retire, resume, shutdown; answers are {"ok": true, …} or {"ok": false, "error": {"code",
/// "message"}}.
[[nodiscard]] std::string answer_control(RouterCore& core, std::string_view request, ControlEffects& effects);

}  // namespace driftgate::route
