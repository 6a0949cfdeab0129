#pragma once

#include <string>

#include "daemon/cli/service/client.hpp"

namespace driftgate::cli::live {

/// Follows a promotion on one screen that is drawn again in place, until it ended or nothing happens before
/// people decide. Returns the exit code of its state. Ctrl-C ends the program by its signal.
schema::Result<int> watch_live(Client& client, const std::string& id);

}  // namespace driftgate::cli::live
