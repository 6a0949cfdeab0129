#include "daemon/route/worker/router.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <random>

#include "daemon/base/clock.hpp"
#include "daemon/base/durable_file.hpp"
#include "daemon/route/gateway/steering.hpp"
#include "daemon/route/haproxy/steering.hpp"
#include "daemon/route/table/access_file.hpp"
#include "daemon/route/table/state_file.hpp"
#include "daemon/route/worker/listeners.hpp"

namespace driftgate::route {
namespace {

constexpr int kExitOptions = 64;
constexpr int kExitIo = 74;

/// A state that cannot be read is put aside and told: users' traffic comes back with the daemon's next
/// apply, and a router that refuses to start would keep it away.
std::vector<ModelRoute> restored_routes(const std::string& path) {
  auto routes = load_state(path);
  if (routes) return std::move(*routes);
  const auto aside = path + ".unusable";
  const bool moved = std::rename(path.c_str(), aside.c_str()) == 0;
  spdlog::error("router: {}; {} starting without routes", routes.error().describe(),
                moved ? "it is kept as " + aside + ";" : "");
  return {};
}

/// What the engines of these routes ask for, as kept. Without it they are asked without their keys until the
/// daemon says it again.
void restore_access(RouterCore& core) {
  const auto access = load_access(access_path(core.options));
  if (!access) return spdlog::error("router: {}", access.error().describe());
  for (const auto& [url, asked] : *access) core.engines.set_access(url, asked);
}

schema::Result<void> write_port_file(const std::string& path, std::uint16_t port) {
  if (path.empty()) return {};
  const auto written = base::replace_file(path, fmt::format("{}\n", port), 0644);
  if (written) return {};
  return schema::wrap(written.error(), fmt::format("cannot write the port file {}", path));
}

/// Descriptors kFirstListener and on, as the daemon placed them.
schema::Result<std::vector<base::UniqueFd>> inherited_listeners(std::uint32_t count) {
  std::vector<base::UniqueFd> listeners;
  for (std::uint32_t i = 0; i < count; ++i) {
    const int fd = kFirstListener + static_cast<int>(i);
    TRY(listening_port(fd));
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    listeners.emplace_back(fd);
  }
  return listeners;
}

/// What serves users in front of this router, if anything does.
schema::Result<void> start_plane(RouterCore& core) {
  if (!core.options.haproxy_dir.empty()) {
    auto plane = TRY(haproxy::Steering::start(core.options, core.port, core.routes, core.ledger));
    core.plane = std::move(plane);
  } else if (!core.options.gateway_api.empty()) {
    auto plane = TRY(gateway::Steering::start(core.options, core.routes, core.engines));
    core.plane = std::move(plane);
  }
  return {};
}

/// Waits for a signal or for the daemon's shutdown.
void wait_for_end(const sigset_t& signals, int stop_fd) {
  const base::UniqueFd signal_fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  std::array<pollfd, 2> watched{{{signal_fd.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}}};
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

Router::Router(RouterOptions options, std::uint64_t seed)
    : core_(std::move(options), fmt::format("{:016x}", seed)),
      seed_(seed),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

/// A worker for each socket.
schema::Result<void> Router::listen(std::vector<base::UniqueFd> sockets) {
  auto port = TRY(listening_port(sockets.front().get()));
  auto held = TRY(duplicates(sockets));
  core_.listeners.hold(std::move(held));
  for (auto& socket : sockets) {
    const auto number = workers_.size();
    workers_.push_back(Worker::make(core_, seed_ + number + 1, number));
    TRY(workers_.back()->listen(std::move(socket)));
  }
  core_.port = port;
  return {};
}

schema::Result<std::unique_ptr<Router>> Router::start(RouterOptions options) {
  TRY(parse_further_paths(options.further_paths));
  auto sockets = TRY(options.listen_fds > 0 ? inherited_listeners(options.listen_fds)
                                            : bind_listeners(options.listen, options.threads));
  return start(std::move(options), std::move(sockets));
}

schema::Result<std::unique_ptr<Router>> Router::start(RouterOptions options,
                                                      std::vector<base::UniqueFd> sockets) {
  std::random_device device;
  const auto seed = (static_cast<std::uint64_t>(device()) << 32) | device();
  std::unique_ptr<Router> router(new Router(std::move(options), seed));
  auto& core = router->core_;
  TRY(core.place.take());
  TRY(core.spool.prepare());
  TRY(router->listen(std::move(sockets)));
  restore_access(core);
  core.routes.restore(restored_routes(core.options.state_path), std::chrono::steady_clock::now());
  TRY(start_plane(core));
  for (const auto& worker : router->workers_) worker->start();
  TRY(write_port_file(core.options.port_file, core.port));
  const int stop = router->stop_.get();
  auto control = TRY(ControlServer::start(core, [stop] { ::eventfd_write(stop, 1); }));
  router->control_ = std::move(control);
  return router;
}

bool Router::drain() {
  core_.draining = true;
  core_.listeners.clear();
  if (core_.retiring) return retire();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(core_.options.drain_ms);
  for (const auto& worker : workers_) worker->drain(true);
  return core_.connections.wait_for_none(deadline);
}

bool Router::retire() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(core_.options.retire_ms);
  for (const auto& worker : workers_) worker->drain(false);
  const bool drained = core_.connections.wait_for_none(deadline) && core_.mirrors.wait_for_none(deadline);
  // The last requests are in a window at once, not only at the end of its time.
  core_.ledger.close_windows({}, base::wall_clock_us(), std::chrono::steady_clock::now());
  if (!core_.ledger.wait_until_delivered(deadline))
    spdlog::warn("router: nobody has read its last telemetry within {} ms", core_.options.retire_ms);
  return drained;
}

void Router::end() {
  const bool drained = drain();
  if (!drained) spdlog::warn("router: the drain time ended with requests still in flight");
  core_.page.end();
}

int run_router(const RouterOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // Blocked before any thread starts, so that all of them inherit it.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto router = Router::start(options);
  if (!router) {
    spdlog::critical("router: {}", router.error().describe());
    return router.error().code == schema::ErrorCode::invalid_argument ? kExitOptions : kExitIo;
  }
  spdlog::info("router: serving on port {}, control socket {}", (*router)->port(), options.control_path);
  wait_for_end(signals, (*router)->stop_fd());
  spdlog::info("router: stopping; requests in flight have {} ms to finish", (*router)->drain_time_ms());
  // The first signal stays pending until it is taken; a second one then has its default effect.
  const timespec none{};
  sigtimedwait(&signals, nullptr, &none);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*router)->end();
  return 0;
}

}  // namespace driftgate::route
