#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/cli/service/client.hpp"

namespace CLI {
class App;
}

namespace driftgate::cli {

/// What is not given is the daemon's default for a new schedule, and stays as it is for one that is changed.
struct ScheduleArgs {
  std::string name;
  std::optional<std::string> cron{}, zone{}, misfire{}, if_running{};
  std::optional<std::string> request_file{};  ///< JSON of the promotion request
  std::optional<std::int64_t> grace_s{};
  std::uint64_t count = 5;
  std::string since, until, model;  ///< of a report; times, see parse_time
};
/// The options of `schedule create`, or of `schedule change` when `replace`.
void add_schedule_options(CLI::App& sub, ScheduleArgs& into, bool replace);
void add_report_options(CLI::App& sub, ScheduleArgs& into);
/// Creates it, or changes what is given of the one that exists when `replace`. Warns on standard error when
/// its request would not be accepted now.
int schedule_set(const ConnectionArgs& connection, const ScheduleArgs& args, bool replace);
int schedule_list(const ConnectionArgs& connection);
int schedule_show(const ConnectionArgs& connection, const std::string& name);
/// `action` is pause, resume or delete.
int schedule_act(const ConnectionArgs& connection, const std::string& name, const std::string& action);
/// What came of each fire time of the schedules.
int schedule_report(const ConnectionArgs& connection, const ScheduleArgs& args);
/// The next fire times, in UTC and in the schedule's zone.
int schedule_next(const ConnectionArgs& connection, const std::string& name, std::uint64_t count);

}  // namespace driftgate::cli
