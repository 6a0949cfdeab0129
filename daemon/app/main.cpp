#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "daemon/api/openapi.hpp"
#include "daemon/app/application.hpp"
#include "daemon/app/check_start.hpp"
#include "daemon/app/deployment.hpp"
#include "daemon/app/drain_command.hpp"
#include "daemon/app/haproxy_command.hpp"
#include "daemon/app/offline_commands.hpp"
#include "daemon/app/settings.hpp"
#include "daemon/app/version.hpp"
#include "daemon/cli/command_line.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/route/control/launcher.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/worker/router.hpp"

namespace {

using namespace driftgate;

/// Each user's stream takes two descriptors; the usual soft limit of 1,024 would be charged to the engines.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int serve(const cli::ServeArgs& args) {
  raise_descriptor_limit();
  auto settings = app::load_settings(args.config, args.data_dir);
  if (!settings) return app::report_unusable(settings.error());
  if (!args.listen.empty()) settings->listen = args.listen;
  return args.check ? app::check_start(*settings) : app::serve(*settings);
}

/// `driftgate router …`: a process of its own, started by the daemon.
int router(std::span<const std::string> words) {
  raise_descriptor_limit();
  if (words.size() == 1 && words[0] == "--launched") return route::become_launched_router();
  const auto options = route::parse_router_arguments(words);
  if (options) return route::run_router(*options);
  cli::report(options.error());
  return cli::kExitUsage;
}

/// `driftgate router-stop --socket PATH`: users' traffic through it ends once it has drained.
int stop_router(std::span<const std::string> words) {
  if (words.size() != 2 || words[0] != "--socket") {
    fmt::print(stderr, "driftgate: router-stop needs --socket PATH\n");
    return cli::kExitUsage;
  }
  const auto stopped = route::RouterDriver(words[1]).shutdown();
  return stopped ? cli::kExitOk : cli::report(stopped.error());
}

/// `driftgate haproxy config [--config FILE] [--data-dir DIR]`
int haproxy(std::span<const std::string> words) {
  app::HaproxyArgs args;
  bool understood = words.size() % 2 == 1 && words[0] == "config";
  for (std::size_t i = 1; understood && i + 1 < words.size(); i += 2) {
    understood = words[i] == "--config" || words[i] == "--data-dir";
    (words[i] == "--config" ? args.config : args.data_dir) = words[i + 1];
  }
  if (understood) return app::haproxy_command(args);
  fmt::print(stderr, "driftgate: usage: driftgate haproxy config [--config FILE] [--data-dir DIR]\n");
  return cli::kExitUsage;
}

int worker(std::span<const std::string> words) {
  if (words.size() == 1) return jobs::run_worker(words[0]);
  fmt::print(stderr, "driftgate: worker needs the folder of one job\n");
  return cli::kExitUsage;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string chosen = words.empty() ? "" : words[0];
  const auto arguments = std::span(words).subspan(words.empty() ? 0 : 1);
  // Asked for help, they are described by the command line as all others.
  const bool helps = std::ranges::any_of(
      arguments, [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (!helps) {
    if (chosen == "router") return router(arguments);
    if (chosen == "router-stop") return stop_router(arguments);
    if (chosen == "drain") return app::drain_command(arguments);
    if (chosen == "worker") return worker(arguments);
    if (chosen == "haproxy") return haproxy(arguments);
  }
  cli::Hooks hooks;
  hooks.serve = serve;
  hooks.settings = [](bool markdown) {
    fmt::print("{}", markdown ? app::settings_markdown() : app::settings_yaml());
    return cli::kExitOk;
  };
  hooks.restore = app::restore_command;
  hooks.key = app::key_command;
  hooks.verify_folder = app::verify_folder_command;
  hooks.recover = app::recover_command;
  hooks.deployment = app::deployment_of;
  hooks.openapi = [] {
    fmt::print("{}", api::openapi_document());
    return cli::kExitOk;
  };
  hooks.version = app::kVersion;
  const int code = cli::run(argc, argv, hooks);
  return chosen == "serve" ? code : cli::finish_output(code);  // serve prints no result
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return driftgate::cli::lost_output(e.what());  // fmt throws it
    fmt::print(stderr, "driftgate: internal error: {}; please report it\n", e.what());
    return driftgate::cli::kExitError;
  }
}
