#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/cli/service/client.hpp"

namespace CLI {
class App;
}

namespace driftgate::cli {

struct JobsArgs {
  std::string id, reason;
  std::string state, model, promotion, kind;  ///< filters of the list; empty: all
  std::uint64_t limit = 50;                   ///< jobs of the list
  std::string file;                           ///< of the logs; empty: all
  bool all = false;                           ///< from the beginning, not only the end
  bool follow = false;
};

/// Makes a command of the group that talks to the daemon.
using MakeCommand =
    std::function<CLI::App*(CLI::App& group, const char* name, const char* text, std::function<int()> run)>;

/// `driftgate jobs list|show|cancel|logs`. `args` and `connection` must outlive the commands.
void add_job_commands(CLI::App& jobs, JobsArgs& args, const ConnectionArgs& connection,
                      const MakeCommand& make);

int jobs_list(const ConnectionArgs& connection, const JobsArgs& args);
int jobs_show(const ConnectionArgs& connection, const JobsArgs& args);
int jobs_cancel(const ConnectionArgs& connection, const JobsArgs& args);
/// Prints what the job's programs have printed, and with `follow` what comes until it has ended.
int jobs_logs(const ConnectionArgs& connection, const JobsArgs& args);

}  // namespace driftgate::cli
