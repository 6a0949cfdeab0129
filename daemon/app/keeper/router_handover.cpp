#include <fmt/format.h>
#include <sys/eventfd.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "daemon/app/keeper/router_identity.hpp"
#include "daemon/app/keeper/router_keeper.hpp"
#include "daemon/route/control/control_place.hpp"
#include "daemon/route/worker/listeners.hpp"

// How one router follows another without a refused connection or a broken stream.
namespace driftgate::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAnswer{2'000};
constexpr std::chrono::milliseconds kTakeBackPause{100};
constexpr int kTakeBackTries = 20;
constexpr std::size_t kMaxRetiring = 4;    ///< each may hold as many connections as a router may have
constexpr std::size_t kFirstRetiring = 4;  ///< in watched_fds

/// What serves users with these options, as a router names it (RouterInfo::plane).
std::string_view plane_of(const route::RouterOptions& options) {
  if (!options.haproxy_dir.empty()) return "haproxy";
  return options.gateway_api.empty() ? "router" : "gateway_api";
}

}  // namespace

void RouterKeeper::hand_over_soon() {
  ::eventfd_write(ask_.get(), 1);
}

/// Routers that a daemon before this one handed over, or was about to.
void RouterKeeper::find_retiring() {
  for (const auto& socket : route::sockets_aside(options_.router.control_path)) {
    const auto pid = route::process_of_socket(socket);
    auto watch = RouterWatch::attach(socket, limits_);
    if (watch) {
      const auto page = watch->page();
      retiring_.push_back(Retiring{std::move(*watch), socket, page ? page->router_id : std::string()});
    } else if (route::process_lives(pid)) {
      log_("warning", fmt::format("router pid={} was handed over and does not answer: {}", pid,
                                  watch.error().describe()));
    } else {
      std::error_code ignored;
      std::filesystem::remove(socket, ignored);
    }
  }
  count_retiring();
}

/// A router that stepped aside for one that never came still listens: the next one shares its sockets.
void RouterKeeper::borrow_listeners() {
  for (const auto& retiring : retiring_) {
    auto listeners = route::ask_for_listeners(retiring.socket, Clock::now() + kAnswer);
    if (!listeners) continue;
    options_.listeners = std::move(*listeners);
    return;
  }
}

/// A router that cannot be handed over is kept; an error only where none serves any more in its place.
schema::Result<void> RouterKeeper::replace_if_other() {
  const auto found = router();
  // A daemon with another data plane than the router's does not start; one without its sockets cannot share
  // them.
  const bool same_plane = found.info.plane == plane_of(options_.router);
  if (!found.adopted || !same_plane || options_.listeners.empty()) return {};
  const auto why = router_differs(found.info.pid, options_);
  if (why.empty()) return {};
  auto done = hand_over(why);
  if (done || !watch_) return done;
  log_("warning",
       fmt::format("router pid={} is kept, although {}: {}; stop it with driftgate router-stop, and the "
                   "next one starts when it is gone",
                   found.info.pid, why, done.error().describe()));
  return {};
}

/// Starts another router beside the present one on the same sockets, gives it the routes, and lets the
/// present one end.
schema::Result<void> RouterKeeper::hand_over(const std::string& reason) {
  const auto old = router().info;
  if (retiring_.size() >= kMaxRetiring)
    return schema::fail(
        schema::ErrorCode::conflict,
        fmt::format("{} routers were handed over and have not ended yet; wait for them", retiring_.size()));
  const auto socket = TRY(route::RouterDriver(options_.router.control_path, kAnswer).retire());
  auto watch = RouterWatch::attach(socket, limits_);
  // Its end is seen by the watch that there is, and another one is started then.
  if (!watch) return schema::wrap(watch.error(), "the router ended while it was handed over");
  retiring_.push_back(Retiring{std::move(*watch), socket, old.router_id});
  const auto started = launch(true);
  if (!started) return take_back(started.error());
  give_routes(socket);
  let_end(retiring_.back());
  count_retiring();
  const auto next = router().info;
  log_("info",
       fmt::format("router handed over pid={} new_pid={} port={}: {}", old.pid, next.pid, next.port, reason));
  return {};
}

/// The router that was to be followed goes on in its place. Where it cannot, others are started until one
/// serves.
schema::Result<void> RouterKeeper::take_back(const schema::Error& why) {
  const auto socket = retiring_.back().socket;
  for (int tries = 0; tries < kTakeBackTries; ++tries) {
    // The one that was started may hold the lock until its process is gone.
    const auto resumed = route::RouterDriver(socket, kAnswer).resume();
    auto watch = resumed ? RouterWatch::attach(options_.router.control_path, limits_)
                         : schema::Result<RouterWatch>(std::unexpected(resumed.error()));
    if (watch) {
      retiring_.pop_back();
      watch_.emplace(std::move(*watch));
      return schema::wrap(why, "no router could be started to follow the one that serves, which goes on");
    }
    if (!wait(kTakeBackPause)) break;
  }
  // Until it ends, the router that was to be followed goes on accepting.
  const auto lost = [this] { return retiring_.back().watch.process().wait(std::chrono::milliseconds(0)); };
  auto started = launch(true);
  while (!started && thread_.joinable() && wait(kTakeBackPause)) {
    if (lost()) note_down(Clock::now());
    started = launch(true);
  }
  if (!started) return started;
  note_up();
  give_routes(socket);
  let_end(retiring_.back());
  count_retiring();
  return {};
}

/// The next router has what the present one holds before this one stops accepting, so that nobody changes
/// between versions. What it does not take, the pipeline applies again.
void RouterKeeper::give_routes(const std::string& socket) {
  const auto held = route::RouterDriver(socket, kAnswer).observe();
  if (!held)
    return log_("warning",
                fmt::format("the routes of the router before cannot be read: {}", held.error().describe()));
  route::RouterDriver next(options_.router.control_path, kAnswer);
  for (const auto& observed : *held) {
    if (observed.reverted) continue;
    const auto applied = next.apply(observed.route);
    if (!applied)
      log_("warning", fmt::format("the next router does not hold the route of {} yet: {}",
                                  observed.route.model, applied.error().describe()));
  }
}

void RouterKeeper::let_end(Retiring& retiring) {
  const auto told = route::RouterDriver(retiring.socket, kAnswer).shutdown();
  retiring.told = told.has_value();
}

void RouterKeeper::watch_retiring(const std::vector<pollfd>& watched, Time now, bool look) {
  std::size_t at = kFirstRetiring;
  for (auto one = retiring_.begin(); one != retiring_.end(); at += 2) {
    const bool ended = watched[at].revents != 0;
    if (watched[at + 1].revents != 0) one->watch.on_readable();
    std::optional<std::string> hangs;
    if (look && !ended) {
      if (!one->told) let_end(*one);
      hangs = one->watch.look(now);
    }
    if (hangs) one->watch.process().kill();
    while (hangs && !one->watch.process().wait(limits_.look_every)) {
      if (!wait(std::chrono::milliseconds(0))) return;
    }
    if (!ended && !hangs) {
      ++one;
      continue;
    }
    const Retiring gone = std::move(*one);
    one = retiring_.erase(one);
    count_retiring();
    bury(gone, hangs.value_or(""));
  }
}

/// Records the end of a router that was handed over.
void RouterKeeper::bury(const Retiring& gone, const std::string& hangs) {
  std::error_code ignored;
  std::filesystem::remove(gone.socket, ignored);
  route::RouterLoss loss;
  loss.pid = gone.watch.process().pid();
  loss.router_id = gone.router_id;
  loss.page = gone.watch.page();
  const bool in_order = loss.page && loss.page->ended;
  if (!hangs.empty()) {
    loss.why = "hung";
    loss.reason = hangs;
  } else {
    loss.why = in_order ? "handed_over" : "killed";
    loss.reason = in_order ? "another router follows it on the same sockets"
                           : "it ended unexpectedly while another router followed it";
  }
  record(loss);
}

void RouterKeeper::count_retiring() {
  const std::lock_guard lock(mutex_);
  figures_.retiring = retiring_.size();
}

}  // namespace driftgate::app
