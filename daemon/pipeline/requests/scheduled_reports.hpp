#pragma once

#include <cstdint>
#include <optional>

#include "daemon/pipeline/context.hpp"
#include "daemon/schedule/report_time.hpp"

namespace driftgate::pipeline {

/// Tells webhooks of the schedules' nights at the times of the settings: a message of the type
/// "schedule.report", once for each such time, also across restarts. What was missed while the daemon was
/// away is in the next one, which reaches back to the last.
class ScheduledReports {
 public:
  explicit ScheduledReports(Context& context) : context_(context) {}
  /// Reads the setting; the error of one that cannot be read.
  schema::Result<void> read_setting();
  /// Puts the report that is due into the outbox; it is made on the helper thread.
  void put_due();

 private:
  schema::Result<void> look();
  void put_report(std::int64_t report_us, std::int64_t last_us);
  schema::Result<void> put(std::int64_t report_us, std::int64_t since_us, const std::string& digest);

  Context& context_;
  std::optional<schedule::RecurringTime> when_{};
  std::optional<std::int64_t> last_us_{};  ///< the newest report; nothing while it was not read
  std::int64_t next_look_us_ = 0;
  bool making_ = false;
};

}  // namespace driftgate::pipeline
