#include "daemon/app/metrics.hpp"

#include "daemon/api/metrics_text.hpp"

namespace driftgate::app {

std::string store_metrics(const store::Store::Stats& stats, std::uint64_t published_size) {
  std::string out;
  const auto add = [&out](std::string_view name, std::string_view type, std::string_view help,
                          std::uint64_t value) {
    api::append_metric_head(out, name, type, help);
    api::append_metric(out, name, "", static_cast<double>(value));
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

}  // namespace driftgate::app
