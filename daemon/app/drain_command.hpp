#pragma once

#include <span>
#include <string>

namespace driftgate::app {

/// `driftgate drain ENGINE_URL [--config FILE] [--data-dir DIR] [--socket PATH] [--timeout SECONDS]`: waits
/// until no router has a request at that engine, so that it can be stopped. Refuses while a route sends
/// requests there. Returns the exit code: 0 drained, 1 it still serves, 4 the routers do not say, 64 usage.
int drain_command(std::span<const std::string> words);

}  // namespace driftgate::app
