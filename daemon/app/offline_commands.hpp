#pragma once

#include "daemon/cli/command_line.hpp"

namespace driftgate::app {

// Commands on the data folder of a daemon that does not run, with the daemon's settings. Each prints its result and
// returns the exit code.

/// `driftgate restore BACKUP`
[[nodiscard]] int restore_command(const cli::OfflineArgs& args);
/// `driftgate key generate|rotate|list|trust`, by `args.action`.
[[nodiscard]] int key_command(const cli::OfflineArgs& args);
/// `driftgate audit verify --data-dir DIR`: the exit codes are those of bundles.
[[nodiscard]] int verify_folder_command(const cli::OfflineArgs& args);

/// `driftgate token recover`
[[nodiscard]] int recover_command(const cli::OfflineArgs& args);

}  // namespace driftgate::app
