// The parts of the router benchmark that must be cheap: bench/router.py starts them beside the proxies.
// Usage: router_bench engine | load | idle …; `router_bench --help-all` lists the options. The engine answers
// behind the proxies, load asks through them, idle keeps connections open. Each is a process of its own, so
// that its processor time is not counted as a proxy's.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "bench/router/engine.hpp"
#include "bench/router/load.hpp"
#include "bench/router/sockets.hpp"

namespace {

using namespace driftgate::bench;

const std::map<std::string, Shape> kShapes{
    {"small", Shape::small}, {"long-prompt", Shape::long_prompt}, {"stream", Shape::stream}};

struct LoadArguments {
  std::string shape = "small";
  LoadOptions options;
};

void add_engine(CLI::App& app, EngineOptions& options) {
  auto* const engine = app.add_subcommand("engine", "Answer until standard input ends; prints the port");
  engine->add_option("--events", options.events, "Events of a streamed answer")
      ->check(CLI::Range(1, 1'000'000));
  engine->add_option("--gap-us", options.gap_us, "Between two events")->check(CLI::Range(1, 10'000'000));
  engine->add_option("--threads", options.threads, "Event loops")->check(CLI::Range(1, 64));
  engine->callback([&options] { run_engine(options); });
}

void add_load(CLI::App& app, LoadArguments& arguments) {
  auto& options = arguments.options;
  auto* const load = app.add_subcommand("load", "Measure requests; prints one JSON object");
  load->add_option("--port", options.port, "Of the proxy")->required();
  load->add_option("--shape", arguments.shape, "Of the requests")->check(CLI::IsMember(kShapes));
  load->add_option("--connections", options.connections, "At once")->check(CLI::Range(1, 100'000));
  load->add_option("--rate", options.rate, "Requests a second in the open loop; 0: closed loop")
      ->check(CLI::Range(0.0, 1e6));
  load->add_option("--warm-up", options.warm_up_s, "Seconds before measuring")->check(CLI::Range(0.0, 60.0));
  load->add_option("--seconds", options.seconds, "Seconds that are measured")->check(CLI::Range(0.01, 600.0));
  load->add_option("--events", options.events, "Events that a streamed answer must have");
  load->add_option("--pids", options.pids, "Processes of the proxy")->delimiter(',');
  load->callback([&arguments] {
    arguments.options.shape = kShapes.at(arguments.shape);
    fmt::print("{}\n", run_load(arguments.options));
  });
}

void add_idle(CLI::App& app, IdleOptions& options) {
  auto* const idle = app.add_subcommand("idle", "Measure memory of idle connections; prints one JSON object");
  idle->add_option("--port", options.port, "Of the proxy")->required();
  idle->add_option("--connections", options.connections, "To open")->check(CLI::Range(1, 1'000'000));
  idle->add_option("--pids", options.pids, "Processes of the proxy")->delimiter(',')->required();
  idle->callback([&options] { fmt::print("{}\n", run_idle(options)); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Parts of the router benchmark");
  app.require_subcommand(1);
  EngineOptions engine;
  LoadArguments load;
  IdleOptions idle;
  add_engine(app, engine);
  add_load(app, load);
  add_idle(app, idle);
  raise_limits();
  CLI11_PARSE(app, argc, argv);
  return 0;
}
