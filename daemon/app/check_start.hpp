#pragma once

#include "daemon/app/settings.hpp"

namespace driftgate::app {

/// The body of `driftgate serve --check`: whether the daemon could start with these settings on this data
/// folder. Starts, locks and changes nothing, also beside a daemon that runs. Prints the schema version of
/// the database, or what is wrong; returns the exit code.
int check_start(const Settings& settings);

}  // namespace driftgate::app
