#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "daemon/api/openapi.hpp"
#include "daemon/app/application.hpp"
#include "daemon/app/offline_commands.hpp"
#include "daemon/app/settings.hpp"
#include "daemon/app/version.hpp"
#include "daemon/cli/command_line.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/jobs/worker.hpp"
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
  auto settings =
      args.config.empty() ? schema::Result<app::Settings>(app::Settings{}) : app::load_settings(args.config);
  if (!settings) return cli::report(settings.error());
  if (!args.listen.empty()) settings->listen = args.listen;
  if (!args.data_dir.empty()) settings->data_dir = args.data_dir;
  return app::serve(*settings);
}

/// `driftgate router …`: a process of its own, started by the daemon.
int router(std::span<const std::string> words) {
  raise_descriptor_limit();
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

int worker(std::span<const std::string> words) {
  if (words.size() == 1) return jobs::run_worker(words[0]);
  fmt::print(stderr, "driftgate: worker needs the folder of one job\n");
  return cli::kExitUsage;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "router") return router(std::span(words).subspan(1));
  if (!words.empty() && words[0] == "router-stop") return stop_router(std::span(words).subspan(1));
  if (!words.empty() && words[0] == "worker") return worker(std::span(words).subspan(1));
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
  hooks.openapi = [] {
    fmt::print("{}", api::openapi_document());
    return cli::kExitOk;
  };
  hooks.version = app::kVersion;
  const int code = cli::run(argc, argv, hooks);
  const bool serves = !words.empty() && words[0] == "serve";  // its log is no answer that someone waits for
  return serves ? code : cli::finish_output(code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return driftgate::cli::lost_output(e.what());  // fmt throws it
    fmt::print(stderr, "driftgate: a fault inside the program: {}; please report it\n", e.what());
    return driftgate::cli::kExitError;
  }
}
