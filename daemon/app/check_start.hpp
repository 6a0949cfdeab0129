#pragma once

#include "daemon/app/settings.hpp"
#include "schema/error.hpp"

namespace driftgate::app {

/// What the start would refuse after it has changed something: settings that no part of the daemon can use,
/// and the files and folders that they name. Looked at before anything is opened or started.
[[nodiscard]] schema::Result<void> check_settings(const Settings& settings);

/// Prints why the settings cannot be used, and returns the exit code: 64, after which a service manager need
/// not try again (RestartPreventExitStatus), or 74 for what may be there later, as a folder of another disk.
int report_unusable(const schema::Error& error);

/// The body of `driftgate serve --check`: whether the daemon could start with these settings on this data
/// folder. Starts, locks and changes nothing, also beside a daemon that runs. Prints the schema version of
/// the database first, whatever the settings are like, then what is wrong; returns the exit code. Not looked
/// at: the record itself (`audit verify`), ports that others have, and a service manager's sandbox.
int check_start(const Settings& settings);

}  // namespace driftgate::app
