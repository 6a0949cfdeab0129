#pragma once

#include <string>

#include "daemon/route/control/spawn.hpp"

namespace driftgate::app {

/// Why a running router is another one than these options would start: another program file, or other options
/// than its address and its threads, which its sockets decide. Empty when it is the same; also when the
/// process cannot be looked at.
[[nodiscard]] std::string router_differs(int pid, const route::SpawnOptions& options);

}  // namespace driftgate::app
