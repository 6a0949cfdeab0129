#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/call.hpp"
#include "daemon/app/background_look.hpp"
#include "daemon/app/keeper/router_keeper.hpp"
#include "daemon/evidence/verify/background_check.hpp"
#include "daemon/notify/sender.hpp"
#include "daemon/notify/traces/trace_sender.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::app {

/// Figures of the store and the log in the Prometheus text format; `size` is the log's, 0 where it cannot be
/// read.
[[nodiscard]] std::string store_metrics(const store::Store::Stats& stats, std::uint64_t size,
                                        std::uint64_t published_size);
/// A folder's file system; nothing where it cannot be asked.
struct DiskSpace {
  double free_bytes = 0, size_bytes = 0;
};
/// Looks at folders that may be on mounts which hang: scrapes never wait for them.
struct FolderLooks {
  BackgroundLook<std::optional<DiskSpace>> data;  ///< the data folder
  BackgroundLook<double> backups;                 ///< when the newest one was finished; 0 without one

  FolderLooks(const std::filesystem::path& data_dir, const std::filesystem::path& backup_dir);
};
/// Room on the data folder's file system, when the newest backup was finished, and how old the looks are.
[[nodiscard]] std::string disk_metrics(const FolderLooks& looks);
/// What has become of traces; zeros where none are sent.
[[nodiscard]] std::string trace_metrics(const notify::TraceFigures& figures);
/// Messages that wait, and whether the endpoint is disabled, for each of these webhooks.
[[nodiscard]] std::string webhook_metrics(store::Store& store,
                                          const std::vector<notify::EndpointSettings>& endpoints);
/// How often the router was replaced, and what went with it.
[[nodiscard]] std::string router_metrics(const RouterKeeper::Figures& figures);

/// How far the check of the record is, in the same format.
[[nodiscard]] std::string check_metrics(const evidence::CheckProgress& progress);

/// The check of the record for /readyz: that it goes on does not hold readiness up, a difference does.
[[nodiscard]] api::ReadyCheck record_ready(const evidence::CheckProgress& progress);

/// The check for /readyz that every withdrawal is recorded; `unrecorded` are models.
[[nodiscard]] api::ReadyCheck withdrawals_ready(const std::vector<std::string>& unrecorded);

}  // namespace driftgate::app
