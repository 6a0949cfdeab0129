#pragma once

#include <string>

#include "daemon/cli/setup/deployment.hpp"
#include "schema/error.hpp"

namespace driftgate::app {

/// What the settings in a file (the defaults without a path) say to the commands that set a daemon up and
/// look after it. Errors of load_settings.
[[nodiscard]] schema::Result<cli::Deployment> deployment_of(const std::string& config,
                                                            const std::string& data_dir);

}  // namespace driftgate::app
