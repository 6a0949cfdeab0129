// driftgate_night --config FILE --time US: the daemon of a simulated night. It reads commands on standard
// input, one a line, and answers each with one line of JSON:
//   advance US [MODEL…]   it is US from here on; the candidates of these models fail      {"open":
//   promotions} clock US              it is US from here on, and nobody is told                        {}
//   stop                  ends as SIGTERM does
// The first line that it prints is {"port": of the API}. `driftgate_night worker JOBDIR` is a job's process.

#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/app/settings.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/jobs/worker.hpp"
#include "tests/night/night_daemon.hpp"

namespace {

using namespace driftgate;

void answer(const std::string& json) {
  fmt::print("{}\n", json);
  std::fflush(stdout);
}

int serve(night::NightDaemon& daemon) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, model;
    std::int64_t now_us = 0;
    words >> command >> now_us;
    if (command == "stop") break;
    if (command == "clock") {
      daemon.set_clock(now_us);
      answer("{}");
      continue;
    }
    std::vector<std::string> failing;
    while (words >> model) failing.push_back(model);
    const auto open = daemon.advance(now_us, failing);
    if (!open) return cli::report(open.error());
    answer(fmt::format(R"({{"open": {}}})", *open));
  }
  return cli::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "worker") return jobs::run_worker(words[1]);
  if (words.size() != 4 || words[0] != "--config" || words[2] != "--time") {
    fmt::print(stderr, "usage: driftgate_night --config FILE --time US\n");
    return cli::kExitUsage;
  }
  const auto settings = app::load_settings(words[1], "");
  if (!settings) return cli::report(settings.error());
  const auto daemon = night::NightDaemon::start(*settings, std::stoll(words[3]));
  if (!daemon) return cli::report(daemon.error());
  answer(fmt::format(R"({{"port": {}}})", (*daemon)->port()));
  return serve(**daemon);
}
