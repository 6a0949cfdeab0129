#include "daemon/app/check_start.hpp"

#include <fmt/format.h>

#include "daemon/app/logging.hpp"
#include "daemon/app/options.hpp"
#include "daemon/app/start_steps.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/notify/sender.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::app {
namespace {

using schema::Result;

/// What the daemon's own start refuses before it serves, as far as it can be told without starting.
Result<std::string> look(const Settings& settings) {
  TRY(server_options(settings));
  TRY(check_router_settings(settings, router_options(settings).router));
  const auto jobs = TRY(runner_options(settings));
  if (jobs.choice != jobs::RunnerChoice::local) TRY(jobs::check_resources(jobs.slurm.resources));
  TRY(notify::load_endpoints(webhook_settings(settings), webhook_policy(settings)));
  const auto version = TRY(store::Store::look(data_dir_of(settings)));
  return version ? fmt::format("the database has schema version {}", *version)
                 : std::string("there is no database yet");
}

}  // namespace

int check_start(const Settings& settings) {
  const auto found = look(settings);
  if (!found) return cli::report(found.error());
  cli::print_line(fmt::format("The daemon can start with these settings; {} ({}).", *found,
                              data_dir_of(settings).string()));
  return cli::kExitOk;
}

}  // namespace driftgate::app
