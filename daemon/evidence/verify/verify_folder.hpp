#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/bundle/verify_bundle.hpp"
#include "daemon/evidence/keys/trust.hpp"
#include "daemon/evidence/log/head_options.hpp"
#include "daemon/evidence/verify/difference.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

struct FolderRequest {
  HeadOptions head{};                       ///< as the daemon has it
  TrustFile trust{};                        ///< keys that heads are believed by
  std::optional<std::string> older_head{};  ///< a signed note that was kept
};

/// What the data folder of a daemon is found to be. The numbers of the results are those of bundles.
struct FolderReport {
  BundleResult result = BundleResult::ok;
  std::uint64_t entries = 0;
  struct Finding {
    BundleResult result = BundleResult::ok;
    Difference difference{};
  };
  std::vector<Finding> findings{};  ///< all of them
};

/// Checks a database as a whole, which may be open read-only: SQLite's integrity, the signature of its head,
/// the published head and one that was kept, the bytes of every entry, the tree, and every table that is
/// derived from the log. Errors are of reading alone.
[[nodiscard]] Result<FolderReport> verify_folder(store::Store& store, const FolderRequest& request);

}  // namespace driftgate::evidence
