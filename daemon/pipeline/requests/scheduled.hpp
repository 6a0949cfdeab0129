#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "daemon/pipeline/context.hpp"
#include "daemon/pipeline/requests/fire_entry.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::pipeline {

/// Requests promotions when their schedules are due.
class ScheduledRequests {
 public:
  explicit ScheduledRequests(Context& context) : context_(context) {}
  /// Decides each schedule that is due; doing it twice changes nothing, since a fire time is stored once.
  void fire_due();

 private:
  /// What the check of a request found, on the helper thread.
  struct Answers {
    schema::Result<CheckedRequest> checked{};
    schema::Result<bool> verified = false;
  };
  void fire(const store::ScheduleRow& row);
  void request_by(const Fire& fire, const Answers& answers);
  void try_again(const std::string& schedule, const schema::Error& error);

  Context& context_;
  std::int64_t next_look_us_ = 0;
  std::set<std::string, std::less<>> firing_;  ///< schedules whose checkpoint is being verified
  std::map<std::string, std::string, std::less<>> delayed_;  ///< why schedules are tried again
};

}  // namespace driftgate::pipeline
