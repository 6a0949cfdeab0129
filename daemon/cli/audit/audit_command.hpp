#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/cli/command_line.hpp"
#include "daemon/cli/service/client.hpp"

namespace driftgate::cli {

struct AuditExportArgs {
  std::string promotion;   ///< or a time range
  std::string from, to;    ///< times, see parse_time
  std::string older_head;  ///< file with a signed note
  std::string out;         ///< new file; "-": standard output
  bool with_tables = false;
};
/// Writes a bundle into a file, which is there only when it is complete.
int audit_export(const ConnectionArgs& connection, const AuditExportArgs& args);

struct AuditVerifyArgs {
  std::vector<std::string> bundles;
  std::string trust;           ///< trust file
  std::string older_head;      ///< file with a signed note
  bool running = false;        ///< accepts promotions that have not ended in their bundle
  bool recorded_only = false;  ///< does not decide stages again from measurement tables
  bool json = false;
};
/// Verifies bundles without a daemon. 0 ok, 1 tampered, 2 fork or rollback, 3 untrusted key, 4 incomplete, 5
/// a verdict does not follow from its evidence; of several bundles the code of the first that is not ok.
int audit_verify(const AuditVerifyArgs& args);
/// The same of bundles, or of the data folder that `folder` names, by `verify_folder`; 64 for both or neither.
int audit_verify(const AuditVerifyArgs& args, OfflineArgs folder,
                 const std::function<int(const OfflineArgs&)>& verify_folder);

}  // namespace driftgate::cli
