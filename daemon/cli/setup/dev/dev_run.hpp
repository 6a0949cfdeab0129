#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "daemon/cli/setup/deployment.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// Runs what belongs to a working folder: the engines of its dev.json, then the daemon, which starts the
/// router; then makes the tokens, tells `on_ready` the text for the person, and waits for SIGINT, SIGTERM or
/// SIGHUP. Ends the daemon, the router once users' requests are answered, and the engines, in this order,
/// also after an error. Errors: `conflict` where a port is taken or `dev` runs in the folder already,
/// `unavailable` where a program ends or is not ready in time, and those of reading the folder.
[[nodiscard]] schema::Result<void> run_folder(const std::filesystem::path& folder,
                                              const Deployment& deployment,
                                              const std::function<void(const std::string&)>& on_ready);

/// Ends what `run_folder` runs in another process, and a router that was left behind. False where nothing
/// ran.
[[nodiscard]] schema::Result<bool> stop_folder(const std::filesystem::path& folder,
                                               const Deployment& deployment);

}  // namespace driftgate::cli
