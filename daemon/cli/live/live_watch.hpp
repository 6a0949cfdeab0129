#pragma once

#include <string>

#include "daemon/cli/service/client.hpp"

namespace driftgate::cli::live {

/// Follows a promotion on one screen that is drawn again in place, until it ended or nothing happens before
/// people decide, or it is in the state `until`. Returns the exit code of its state, 0 for `until`. Ctrl-C
/// ends the program by its signal.
schema::Result<int> watch_live(Client& client, const std::string& id, const std::string& until = {});

}  // namespace driftgate::cli::live
