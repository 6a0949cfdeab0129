#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/deployment.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

// Commands that set a daemon up, run it for a person at work, and look after it.

/// Reads settings: Hooks::deployment.
using ReadDeployment =
    std::function<schema::Result<Deployment>(const std::string& config, const std::string& data_dir)>;

struct InitArgs {
  std::string folder;
  std::string example;             ///< tinylm, or empty
  std::string train, inf, corpus;  ///< captures that a contract is suggested from; empty: none
};
/// `driftgate init DIR`: writes a working folder. Nothing is left of it after an error.
[[nodiscard]] int init_command(const InitArgs& args);

struct DevArgs {
  std::string folder;
  bool detach = false;  ///< return once everything runs
  bool stop = false;    ///< end the one that runs in the folder
};
/// `driftgate dev DIR`: engines of the example, daemon and router until Ctrl-C, and tokens for each role.
[[nodiscard]] int dev_command(const DevArgs& args, const ReadDeployment& read);

struct DoctorArgs {
  std::string config, data_dir;  ///< of this machine's daemon; both empty: see doctor_command
  bool alive = false;            ///< only whether it answers
};
/// `driftgate doctor`: with a URL alone (--url, or DRIFTGATE_URL without --config) it asks that daemon; else
/// it looks at this machine's files as well. Exit status 0 without findings, 1 with some. With `alive` it
/// only says whether the daemon answers, and 69 when it does not.
[[nodiscard]] int doctor_command(const DoctorArgs& args, const ConnectionArgs& connection,
                                 const ReadDeployment& read);

struct KeyCopyArgs {
  std::string config, data_dir;
  std::string to;  ///< folder for the copies
  bool json = false;
};
/// `driftgate key copy`: copies of the keys that cannot be made anew, noted for the doctor.
[[nodiscard]] int key_copy_command(const KeyCopyArgs& args, const ReadDeployment& read);

}  // namespace driftgate::cli
