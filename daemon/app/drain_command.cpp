#include "daemon/app/drain_command.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/app/options.hpp"
#include "daemon/app/settings.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/route/control/control_place.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/table/decide.hpp"

namespace driftgate::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskEvery{100};
constexpr int kExitServes = 1;

struct Drain {
  std::string engine;
  std::string config, data_dir, socket;
  std::chrono::seconds timeout{600};
};

std::optional<Drain> parse(std::span<const std::string> words) {
  if (words.empty() || words.size() % 2 == 0 || words[0].starts_with("--")) return std::nullopt;
  Drain drain;
  drain.engine = words[0];
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    const auto& value = words[i + 1];
    if (words[i] == "--config") {
      drain.config = value;
    } else if (words[i] == "--data-dir") {
      drain.data_dir = value;
    } else if (words[i] == "--socket") {
      drain.socket = value;
    } else if (words[i] == "--timeout") {
      unsigned seconds = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
      if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
      drain.timeout = std::chrono::seconds(seconds);
    } else {
      return std::nullopt;
    }
  }
  return drain;
}

/// Whether new requests may go to the engine by this route.
bool leads_to(const route::ModelRoute& route, const std::string& engine) {
  if (route.incumbent.url == engine) return true;
  if (route.candidate && route.candidate->url == engine && route::exposes_candidate(route)) return true;
  const bool falls_back = route.all_to_fallback || std::ranges::any_of(route.slices, [](const auto& slice) {
                            return slice.to_fallback;
                          });
  return falls_back && route.fallback && route.fallback->url == engine;
}

/// What the routers have at the engine: requests in flight, and the models that send it more.
struct Use {
  std::uint64_t in_flight = 0;
  std::vector<std::string> models;
};

schema::Result<void> add_use(const std::string& socket, const std::string& engine, Use& use) {
  route::RouterDriver driver(socket);
  const auto routes = TRY(driver.observe());
  for (const auto& observed : routes) {
    if (leads_to(observed.route, engine)) use.models.push_back(observed.route.model);
  }
  const auto health = TRY(driver.health({}));
  for (const auto& status : health.engines) {
    if (status.url == engine) use.in_flight += status.in_flight;
  }
  return {};
}

schema::Result<Use> look(const std::string& socket, const std::string& engine) {
  Use use;
  TRY(add_use(socket, engine, use));
  for (const auto& aside : route::sockets_aside(socket)) {
    const auto added = add_use(aside, engine, use);
    const bool gone = !added && !route::process_lives(route::process_of_socket(aside));
    if (!added && !gone) return std::unexpected(added.error());
  }
  return use;
}

schema::Result<int> drain_engine(const Drain& drain) {
  auto socket = drain.socket;
  if (socket.empty()) {
    const auto settings = TRY(load_settings(drain.config, drain.data_dir));
    socket = router_options(settings).router.control_path;
  }
  const auto until = Clock::now() + drain.timeout;
  for (;;) {
    const auto use = TRY(look(socket, drain.engine));
    if (!use.models.empty()) {
      cli::print_line(fmt::format("{} serves model {}: promote another engine, roll back or abort first",
                                  drain.engine, use.models.front()));
      return kExitServes;
    }
    if (use.in_flight == 0) {
      cli::print_line(fmt::format("{} has no requests and gets none: it can be stopped", drain.engine));
      return cli::kExitOk;
    }
    if (Clock::now() >= until) {
      cli::print_line(fmt::format("{} still has {} requests", drain.engine, use.in_flight));
      return kExitServes;
    }
    std::this_thread::sleep_for(kAskEvery);  // a router only answers questions
  }
}

}  // namespace

int drain_command(std::span<const std::string> words) {
  const auto drain = parse(words);
  if (!drain) {
    fmt::print(
        stderr,
        "driftgate: usage: driftgate drain ENGINE_URL [--config FILE] [--data-dir DIR] [--socket PATH] "
        "[--timeout SECONDS]\n");
    return cli::kExitUsage;
  }
  const auto code = drain_engine(*drain);
  return code ? cli::finish_output(*code) : cli::report(code.error());
}

}  // namespace driftgate::app
