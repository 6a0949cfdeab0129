#include "daemon/app/metrics.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "daemon/api/metrics_text.hpp"
#include "daemon/evidence/backup.hpp"
#include "daemon/store/outbox.hpp"

namespace driftgate::app {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxBackups = 10'000;  // that are looked at
constexpr std::chrono::milliseconds kLookEvery{60'000};

std::optional<DiskSpace> space_of(const fs::path& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (error) return std::nullopt;
  return DiskSpace{static_cast<double>(space.available), static_cast<double>(space.capacity)};
}

/// The time of the newest head in a backup, which is written last; 0 without a backup.
double newest_backup_s(const fs::path& folder) {
  std::int64_t newest = 0;
  std::error_code error;
  int looked = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end && looked < kMaxBackups;
       entry.increment(error), ++looked) {
    struct stat status {};
    if (::stat((entry->path() / evidence::kBackupHead).c_str(), &status) == 0)
      newest = std::max<std::int64_t>(newest, status.st_mtime);
  }
  return static_cast<double>(newest);
}

}  // namespace

FolderLooks::FolderLooks(const fs::path& data_dir, const fs::path& backup_dir)
    : data(kLookEvery, [data_dir] { return space_of(data_dir); }),
      backups(kLookEvery, [backup_dir] { return newest_backup_s(backup_dir); }) {}

std::string disk_metrics(const FolderLooks& looks) {
  constexpr std::string_view kAge = "driftgate_folder_look_age_seconds";
  const auto data = looks.data.seen();
  const auto backups = looks.backups.seen();
  std::string out;
  if (const auto space = data.value.value_or(std::nullopt)) {
    api::append_single(out, "driftgate_data_dir_free_bytes", "gauge",
                       "Free bytes of the data folder's file system.", space->free_bytes);
    api::append_single(out, "driftgate_data_dir_size_bytes", "gauge", "Size of that file system.",
                       space->size_bytes);
  }
  if (backups.value)
    api::append_single(out, "driftgate_backup_timestamp_seconds", "gauge",
                       "When the newest backup in the backup folder was finished; 0 without one.",
                       *backups.value);
  api::append_metric_head(out, kAge, "gauge",
                          "Time since a look at the folder ended, of which there is one each minute.");
  for (const auto& [folder, age_ms] : {std::pair{"data", data.age_ms}, {"backups", backups.age_ms}})
    api::append_metric(out, kAge, api::label("folder", folder), static_cast<double>(age_ms) / 1'000);
  return out;
}

std::string webhook_metrics(store::Store& store, const std::vector<notify::EndpointSettings>& endpoints) {
  std::string disabled;
  std::string waiting;
  api::append_metric_head(disabled, "driftgate_webhook_disabled", "gauge",
                          "1 while nothing is sent to the endpoint, since it answered 410.");
  api::append_metric_head(waiting, "driftgate_webhook_messages", "gauge",
                          "Messages to the endpoint that are kept, by what became of them.");
  for (const auto& endpoint : endpoints) {
    (void)store.read([&](store::Reader& reader) -> schema::Result<void> {
      const auto known = TRY(store::find_webhook(reader, endpoint.name));
      const auto counts = TRY(store::count_outbox(reader, endpoint.name));
      const auto name = api::label("webhook", endpoint.name);
      api::append_metric(disabled, "driftgate_webhook_disabled", name, known && known->disabled_us ? 1 : 0);
      for (const auto& [state, count] : {std::pair{"pending", counts.pending},
                                         {"delivered", counts.delivered},
                                         {"failed", counts.failed},
                                         {"dropped", counts.dropped}})
        api::append_metric(waiting, "driftgate_webhook_messages", fmt::format("{},state=\"{}\"", name, state),
                           static_cast<double>(count));
      return {};
    });
  }
  return disabled + waiting;
}

std::string trace_metrics(const notify::TraceFigures& figures) {
  constexpr std::string_view kSent = "driftgate_otlp_sent_total";
  std::string out;
  api::append_metric_head(out, kSent, "counter", "Spans and events that the collector took.");
  api::append_metric(out, kSent, "signal=\"spans\"", static_cast<double>(figures.spans));
  api::append_metric(out, kSent, "signal=\"events\"", static_cast<double>(figures.events));
  api::append_single(out, "driftgate_otlp_dropped_total", "counter",
                     "Spans and events that no collector took in time.",
                     static_cast<double>(figures.dropped));
  api::append_single(out, "driftgate_otlp_queue", "gauge", "Promotions of which something is to be sent.",
                     static_cast<double>(figures.waiting));
  return out;
}

std::string store_metrics(const store::Store::Stats& stats, std::uint64_t size,
                          std::uint64_t published_size) {
  std::string out;
  const auto add = [&out](std::string_view name, std::string_view type, std::string_view help,
                          std::uint64_t value) {
    api::append_single(out, name, type, help, static_cast<double>(value));
  };
  add("driftgate_store_commits_total", "counter", "Group commits since the start.", stats.commits);
  add("driftgate_store_writes_total", "counter", "Writes committed since the start.", stats.items);
  add("driftgate_store_refused_total", "counter", "Writes refused because the queue was full.",
      stats.refused);
  add("driftgate_store_checkpoints_total", "counter", "WAL checkpoints since the start.", stats.checkpoints);
  add("driftgate_store_queue", "gauge", "Writes that wait.", stats.queued);
  add("driftgate_store_wal_bytes", "gauge", "Size of the WAL after the last COMMIT.", stats.wal_bytes);
  add("driftgate_log_entries", "gauge", "Entries of the log.", size);
  add("driftgate_log_published_entries", "gauge", "Entries under the newest published head.", published_size);
  return out;
}

std::string check_metrics(const evidence::CheckProgress& progress) {
  std::string out;
  const auto add = [&out](std::string_view name, std::string_view help, std::uint64_t value) {
    api::append_single(out, name, "gauge", help, static_cast<double>(value));
  };
  add("driftgate_record_checked_entries", "Entries compared with the signed head since the start.",
      progress.entries);
  add("driftgate_record_entries_to_check", "Entries that the log had at the start.", progress.entries_total);
  add("driftgate_record_check_finished", "1 once entries and tables were compared with the signed log.",
      progress.is_finished ? 1 : 0);
  add("driftgate_record_differences", "Differences from the signed log that were found since the start.",
      progress.differences);
  return out;
}

api::ReadyCheck record_ready(const evidence::CheckProgress& progress) {
  if (progress.differences > 0) {
    return {"record", false,
            fmt::format("{} differences from the signed log, the first: {}; restore a backup",
                        progress.differences, to_text(progress.named.front()))};
  }
  if (progress.failure) {
    return {"record", false, "the record cannot be checked: " + progress.failure->describe()};
  }
  const std::string entries = fmt::format("{} of {} entries", progress.entries, progress.entries_total);
  return {"record", true,
          progress.is_finished ? entries + " and the tables verified" : entries + " verified so far"};
}

api::ReadyCheck withdrawals_ready(const std::vector<std::string>& unrecorded) {
  if (unrecorded.empty()) return {"withdrawals", true, ""};
  return {
      "withdrawals", false,
      fmt::format("a version of {} was withdrawn, and this is not recorded yet: the log says who serves its "
                  "users and what the disk refuses; a restart before the record may undo it",
                  fmt::join(unrecorded, ", "))};
}

std::string router_metrics(const RouterKeeper::Figures& figures) {
  constexpr std::string_view kReplaced = "driftgate_router_replaced_total";
  std::string out;
  api::append_metric_head(out, kReplaced, "counter", "Routers that were replaced since the start, by cause.");
  for (const auto& [why, count] : figures.replaced)
    api::append_metric(out, kReplaced, fmt::format("why=\"{}\"", why), static_cast<double>(count));
  api::append_single(out, "driftgate_router_retiring", "gauge",
                     "Routers that were handed over and still have requests, or telemetry to be read.",
                     static_cast<double>(figures.retiring));
  api::append_single(out, "driftgate_router_up", "gauge",
                     "0 from the loss of a router until the next one answers.", figures.up ? 1 : 0);
  const auto add = [&out](std::string_view name, std::string_view help, double value) {
    api::append_single(out, name, "counter", help, value);
  };
  add("driftgate_router_broken_requests_total", "Requests in flight in routers when they were replaced.",
      static_cast<double>(figures.broken_requests));
  add("driftgate_router_lost_windows_total", "Closed telemetry windows that went with routers.",
      static_cast<double>(figures.lost_windows));
  add("driftgate_router_down_seconds_total", "Time without a router that serves, with that which goes on.",
      static_cast<double>(figures.down_ms) / 1'000);
  return out;
}

}  // namespace driftgate::app
