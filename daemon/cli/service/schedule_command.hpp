#pragma once

#include <cstdint>
#include <string>

#include "daemon/cli/service/client.hpp"

namespace driftgate::cli {

struct ScheduleArgs {
  std::string name, cron, zone = "UTC";
  std::string request_file;  ///< JSON of the promotion request
  std::string misfire = "skip", if_running = "skip";
  std::int64_t grace_s = 3'600;
  std::uint64_t count = 5;
};
/// Creates it, or changes the one that exists when `replace`.
int schedule_set(const ConnectionArgs& connection, const ScheduleArgs& args, bool replace);
int schedule_list(const ConnectionArgs& connection);
int schedule_show(const ConnectionArgs& connection, const std::string& name);
/// `action` is pause, resume or delete.
int schedule_act(const ConnectionArgs& connection, const std::string& name, const std::string& action);
/// The next fire times, in UTC and in the schedule's zone.
int schedule_next(const ConnectionArgs& connection, const std::string& name, std::uint64_t count);

}  // namespace driftgate::cli
