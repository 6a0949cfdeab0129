#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "daemon/pipeline/context.hpp"
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

  Context& context_;
  std::int64_t next_look_us_ = 0;
  std::set<std::string, std::less<>> firing_;  ///< schedules whose checkpoint is being verified
};

}  // namespace driftgate::pipeline
