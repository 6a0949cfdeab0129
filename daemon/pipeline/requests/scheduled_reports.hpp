#pragma once

#include <cstdint>
#include <optional>

#include "daemon/pipeline/context.hpp"
#include "daemon/schedule/report_time.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::pipeline {

/// Tells webhooks of the schedules' nights at the times of the settings: a message of the type
/// "schedule.report", once for each such time, also across restarts. What was missed while the daemon was
/// away is in the next one, which reaches back to the last; so is what came of fire times that had no end
/// then.
class ScheduledReports {
 public:
  explicit ScheduledReports(Context& context) : context_(context) {}
  /// Reads the setting; the error of one that cannot be read.
  schema::Result<void> read_setting();
  /// Puts the report that is due into the outbox; it is made on the helper thread.
  void put_due();

 private:
  schema::Result<void> look();
  schema::Result<bool> waits_for_fires(std::int64_t report_us);
  void put_report(std::int64_t report_us, const store::ScheduleReportRow& last);
  schema::Result<void> put(const store::ScheduleReportRow& report, std::int64_t since_us,
                           const std::string& digest);

  Context& context_;
  std::optional<schedule::RecurringTime> when_{};
  std::optional<store::ScheduleReportRow> last_{};  ///< the newest report; nothing while it was not read
  std::optional<std::int64_t> waits_since_us_{};    ///< since when a report waits for fire times
  std::int64_t next_look_us_ = 0;
  bool making_ = false;
};

}  // namespace driftgate::pipeline
