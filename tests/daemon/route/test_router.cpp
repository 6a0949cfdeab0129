#include "tests/daemon/route/test_router.hpp"

#include <stdexcept>
#include <thread>

#include "daemon/route/worker/listeners.hpp"

namespace driftgate::route {
namespace {

constexpr std::chrono::seconds kPatience{120};
constexpr std::chrono::milliseconds kPoll{5};

RouterOptions test_options(const TemporaryFolder& folder, const std::function<void(RouterOptions&)>& change) {
  RouterOptions options;
  options.control_path = folder.at("control");
  options.spool_dir = folder.at("spool");
  options.state_path = folder.at("state");
  options.port_file = folder.at("port");
  options.window_ms = 20;
  options.drain_ms = 2'000;
  options.probe_ms = 0;                      // engines count their requests
  options.first_byte_floor_ms = 86'400'000;  // and may be as slow as the machine is
  if (change) change(options);
  return options;
}

std::unique_ptr<Router> started(const RouterOptions& options) {
  auto router = Router::start(options);
  if (!router) throw std::runtime_error(router.error().describe());
  return std::move(*router);
}

}  // namespace

TestRouter::TestRouter(const std::function<void(RouterOptions&)>& change)
    : options_(test_options(folder_, change)), driver_(options_.control_path), router_(started(options_)) {}

void TestRouter::restart() {
  router_.reset();
  router_ = started(options_);
}

void TestRouter::start_on(const std::vector<base::UniqueFd>& sockets) {
  auto copies = duplicates(sockets);
  if (!copies) throw std::runtime_error(copies.error().describe());
  auto router = Router::start(options_, std::move(*copies));
  if (!router) throw std::runtime_error(router.error().describe());
  router_ = std::move(*router);
}

void TestRouter::apply(ModelRoute route) {
  route.revision = ++revision_;
  const auto applied = driver_.apply(route);
  if (!applied) throw std::runtime_error(applied.error().describe());
}

std::vector<Window> TestRouter::windows_until(const std::function<bool(const std::vector<Window>&)>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto windows = driver_.windows(last_window_, 100);
    if (!windows) throw std::runtime_error(windows.error().describe());
    for (auto& window : *windows) {
      last_window_ = {window.router_id, window.number};
      windows_.push_back(std::move(window));
    }
    if (done(windows_)) return windows_;
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("telemetry did not come in time");
    std::this_thread::sleep_for(kPoll);  // the control socket only answers, so telemetry is polled
  }
}

HealthReport TestRouter::health() {
  auto report = driver_.health({});
  if (!report) throw std::runtime_error(report.error().describe());
  return std::move(*report);
}

EngineStatus TestRouter::health_of(const std::string& url) {
  const auto report = health();
  for (const auto& engine : report.engines) {
    if (engine.url == url) return engine;
  }
  throw std::runtime_error("the router does not know the engine " + url);
}

void TestRouter::await_breaker(const std::string& url, BreakerState state) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (health_of(url).state != state) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the breaker did not change in time");
    std::this_thread::sleep_for(kPoll);  // the control socket only answers
  }
}

std::vector<Observation> TestRouter::observations(std::size_t count) {
  std::vector<Observation> found;
  windows_until([&](const std::vector<Window>& windows) {
    found.clear();
    for (const auto& window : windows)
      found.insert(found.end(), window.observations.begin(), window.observations.end());
    return found.size() >= count;
  });
  return found;
}

ModelRoute route_to(const std::string& incumbent, const std::string& candidate, std::uint32_t candidate_bp) {
  auto route = sample_route();
  route.incumbent.url = incumbent;
  route.fallback.reset();
  if (candidate.empty()) {
    route.candidate.reset();
  } else {
    route.candidate->url = candidate;
  }
  route.candidate_bp = candidate_bp;
  return route;
}

std::string tiny_request(bool stream, const std::string& more) {
  return std::string(R"({"model":"tiny","prompt":"hello","max_tokens":4)") +
         (stream ? R"(,"stream":true)" : "") + more + "}";
}

}  // namespace driftgate::route
