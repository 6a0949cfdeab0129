#pragma once

#include <functional>
#include <string>

#include "daemon/cli/setup/deployment.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// `driftgate serve`: the configuration file and what overrides it.
struct ServeArgs {
  std::string config;    ///< empty: defaults
  std::string listen;    ///< empty: as configured
  std::string data_dir;  ///< empty: as configured
  bool check = false;    ///< say whether it could start, and start nothing
};

/// The options of commands on the data folder of a daemon that does not run; each uses some of them.
struct OfflineArgs {
  std::string config;    ///< the daemon's; empty: defaults
  std::string data_dir;  ///< empty: as configured
  std::string action;    ///< of `driftgate key`
  std::string use;       ///< head, attestation or webhook
  std::string name;      ///< of the person who recovers the tokens
  std::string out;       ///< file of a new key or token
  std::string reason;
  std::string backup;      ///< folder to restore
  std::string trust;       ///< trust file; empty: the data folder's own
  std::string older_head;  ///< file with a signed note
  bool accept_loss = false;
  bool json = false;
};

/// What the program does besides being a client: passed in by main, since it is implemented in daemon/app.
struct Hooks {
  std::function<int(const ServeArgs&)> serve;
  std::function<int(bool markdown)> settings;  ///< prints the documented settings
  std::function<int(const OfflineArgs&)> restore;
  std::function<int(const OfflineArgs&)> key;
  std::function<int(const OfflineArgs&)> verify_folder;
  std::function<int(const OfflineArgs&)> recover;  ///< a token with the scope admin
  /// What the settings in a file (empty: the defaults) say, with another data folder unless that is empty.
  std::function<schema::Result<Deployment>(const std::string& config, const std::string& data_dir)>
      deployment;
  std::function<int()> openapi;                ///< prints the API's document
  std::string version;
};

/// Parses the command line, runs the command and returns its exit code; 64 with a hint for what cannot be
/// parsed.
int run(int argc, const char* const* argv, const Hooks& hooks);

}  // namespace driftgate::cli
