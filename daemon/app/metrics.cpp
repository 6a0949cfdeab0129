#include "daemon/app/metrics.hpp"

#include <fmt/format.h>

#include "daemon/api/metrics_text.hpp"

namespace driftgate::app {

std::string store_metrics(const store::Store::Stats& stats, std::uint64_t published_size) {
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

std::string router_metrics(const RouterKeeper::Figures& figures) {
  constexpr std::string_view kReplaced = "driftgate_router_replaced_total";
  std::string out;
  api::append_metric_head(out, kReplaced, "counter", "Routers that were replaced since the start, by cause.");
  for (const auto& [why, count] : figures.replaced)
    api::append_metric(out, kReplaced, fmt::format("why=\"{}\"", why), static_cast<double>(count));
  api::append_single(out, "driftgate_router_retiring", "gauge",
                     "Routers that were handed over and still have requests, or telemetry to be read.",
                     static_cast<double>(figures.retiring));
  const auto add = [&out](std::string_view name, std::string_view help, double value) {
    api::append_single(out, name, "counter", help, value);
  };
  add("driftgate_router_broken_requests_total", "Requests in flight in routers when they were replaced.",
      static_cast<double>(figures.broken_requests));
  add("driftgate_router_lost_windows_total", "Closed telemetry windows that went with routers.",
      static_cast<double>(figures.lost_windows));
  add("driftgate_router_down_seconds_total", "Time without a router that serves.",
      static_cast<double>(figures.down_ms) / 1'000);
  return out;
}

}  // namespace driftgate::app
