#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "daemon/pipeline/context.hpp"
#include "daemon/schedule/misfire.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::pipeline {

/// Requests promotions when their schedules are due.
class ScheduledRequests {
 public:
  explicit ScheduledRequests(Context& context) : context_(context) {}
  /// Decides each schedule that is due; doing it twice changes nothing, since a fire time is stored once.
  void fire_due();

 private:
  void fire(const store::ScheduleRow& row);
  void request_by(const store::ScheduleRow& row, const schedule::DueFire& due,
                  const schema::Result<CheckedRequest>& checked, const schema::Result<bool>& verified);
  void skip_fire(const store::ScheduleRow& row, const schedule::DueFire& due, const std::string& why,
                 const std::string& reason);
  void move_on(const store::ScheduleRow& row, const schedule::DueFire& due);
  schema::Result<void> put_fire(store::Tx& tx, Entries& entries, const store::ScheduleRow& row,
                                const schedule::DueFire& due, const schema::EntryDraft& entry,
                                const std::string& outcome, const std::string& why,
                                const std::optional<std::string>& promotion) const;

  Context& context_;
  std::int64_t next_look_us_ = 0;
  std::set<std::string, std::less<>> firing_;  ///< schedules whose checkpoint is being looked at
};

}  // namespace driftgate::pipeline
