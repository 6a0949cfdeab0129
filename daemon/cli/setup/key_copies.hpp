#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon/cli/setup/deployment.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

// Copies of the keys that sign heads and attestations: without one, a lost data folder cannot be restored,
// since backups contain no keys. DATA_DIR/key-copies.json notes which keys were copied, by their public
// halves.

/// A key of the daemon that cannot be made anew.
struct KeptKey {
  std::string use;  ///< head or attestation
  std::filesystem::path file;
};
[[nodiscard]] std::vector<KeptKey> kept_keys(const Deployment& deployment);

/// Copies the keys into a folder (made with mode 0700; files 0600, never replaced by another key), reads the
/// copies back and notes them. The lines to print. Errors: `io`, `forbidden` (also for a folder of another
/// user, or that others may write to), `corrupt`, `already_exists`, `invalid_argument` for a folder within
/// the data folder or that of backups.
[[nodiscard]] schema::Result<std::vector<std::string>> copy_keys(const Deployment& deployment,
                                                                 const std::filesystem::path& to);

/// Where the key that lies in a file now was copied to; empty when no copy is noted. Errors of reading the
/// key or the notes.
[[nodiscard]] schema::Result<std::string> noted_copy(const Deployment& deployment, const KeptKey& key);

}  // namespace driftgate::cli
