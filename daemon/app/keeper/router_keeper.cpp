#include "daemon/app/keeper/router_keeper.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "daemon/route/worker/listeners.hpp"

namespace driftgate::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstWait{100};
constexpr std::chrono::milliseconds kLongestWait{60'000};
constexpr std::chrono::milliseconds kShortLife{1'000};  ///< a router that lived less did not start well
constexpr std::chrono::milliseconds kAnswer{2'000};     ///< of a living router, before it is looked at closer
constexpr std::chrono::milliseconds kSilence{60'000};   ///< that a slow router may take at the daemon's start

std::int64_t ms_since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count();
}

std::unexpected<schema::Error> stopping() {
  return schema::fail(schema::ErrorCode::unavailable, "the router's keeper is stopping");
}

}  // namespace

RouterKeeper::RouterKeeper(route::SpawnOptions options, Log log, route::HangLimits limits)
    : options_(std::move(options)),
      log_(std::move(log)),
      limits_(limits),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ask_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  options_.answer = kAnswer;
}

schema::Result<std::unique_ptr<RouterKeeper>> RouterKeeper::start(route::SpawnOptions options, Log log,
                                                                  route::HangLimits limits) {
  std::unique_ptr<RouterKeeper> keeper(new RouterKeeper(std::move(options), std::move(log), limits));
  if (!keeper->wake_ || !keeper->ask_)
    return schema::fail(schema::ErrorCode::io, "cannot make an eventfd for the router's keeper");
  for (auto& loss : route::kept_notes(keeper->options_.router.control_path))
    keeper->untold_.push_back(std::move(loss));
  TRY(keeper->find());
  for (auto& loss : keeper->untold_) {
    if (!loss.replacement_id.empty()) continue;
    loss.replacement_id = keeper->router_.info.router_id;
    loss.replacement_pid = keeper->router_.info.pid;
  }
  keeper->thread_ = std::thread([raw = keeper.get()] { raw->run(); });
  return keeper;
}

RouterKeeper::~RouterKeeper() {
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

route::RouterProcess RouterKeeper::router() const {
  const std::lock_guard lock(mutex_);
  return router_;
}

RouterKeeper::Figures RouterKeeper::figures() const {
  const std::lock_guard lock(mutex_);
  auto figures = figures_;
  figures.up = !down_since_;
  if (down_since_) figures.down_ms += ms_since(*down_since_);
  return figures;
}

/// No router serves since then, so that whoever reads figures meanwhile sees it.
void RouterKeeper::note_down(Time since) {
  const std::lock_guard lock(mutex_);
  if (!down_since_) down_since_ = since;
}

/// One serves again; for how long none did.
std::int64_t RouterKeeper::note_up() {
  const std::lock_guard lock(mutex_);
  if (!down_since_) return 0;
  const auto down_ms = ms_since(*down_since_);
  figures_.down_ms += down_ms;
  down_since_.reset();
  return down_ms;
}

void RouterKeeper::on_replaced(OnReplaced tell) {
  const std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
  if (!tell_) return;
  for (const auto& loss : untold_) tell_(loss);
  untold_.clear();
}

schema::Result<void> RouterKeeper::find() {
  find_retiring();
  TRY(find_serving());
  TRY(replace_if_other());
  for (auto& retiring : retiring_) {
    if (retiring.told) continue;
    const auto info = route::RouterDriver(retiring.socket, kAnswer).info();
    if (info && !info->draining) give_routes(retiring.socket);
    let_end(retiring);
  }
  return {};
}

/// Adopts, waits for the end of one that drains, kills one that hangs; else starts one.
schema::Result<void> RouterKeeper::find_serving() {
  auto living = route::adopt_router(options_.router.control_path, kAnswer);
  if (living && living->info.draining) {
    const auto limit = options_.deadline + std::chrono::milliseconds(options_.router.drain_ms);
    const auto ending = RouterWatch::attach(options_.router.control_path, limits_);
    if (ending && !ending->process().wait(limit)) {
      return schema::fail(
          schema::ErrorCode::deadline_exceeded,
          fmt::format(
              "the router on {} was told to end but is still running; stop it, then start the daemon again",
              options_.router.control_path));
    }
    return launch(false);
  }
  if (living) return adopt(std::move(*living));
  if (living.error().code == schema::ErrorCode::unavailable) {
    borrow_listeners();
    return launch(false);
  }
  if (living.error().code == schema::ErrorCode::deadline_exceeded) return settle_silent();
  return std::unexpected(living.error());
}

/// A process listens on the control socket but does not answer: it is slow, or it hangs.
schema::Result<void> RouterKeeper::settle_silent() {
  auto watch = RouterWatch::attach(options_.router.control_path, limits_);
  if (!watch) return launch(false);
  watch_.emplace(std::move(*watch));
  const auto since = Clock::now();
  for (auto next = since; Clock::now() - since < kSilence; next += limits_.look_every) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
    if (watch_->process().wait(std::max(left, std::chrono::milliseconds(0)))) return launch(false);
    const auto hangs = watch_->look(Clock::now());
    if (hangs) {
      {
        const std::lock_guard lock(mutex_);
        router_.info.pid = watch_->process().pid();
      }
      return kill_hung(*hangs);
    }
    pollfd socket{watch_->socket(), POLLIN, 0};
    if (::poll(&socket, 1, 0) > 0) watch_->on_readable();
    if (!watch_->answered()) continue;
    auto living = route::adopt_router(options_.router.control_path, kAnswer);
    if (living) return adopt(std::move(*living));
  }
  return schema::fail(
      schema::ErrorCode::deadline_exceeded,
      fmt::format("the router on {} does not answer; end process {}, then start the daemon again",
                  options_.router.control_path, watch_->process().pid()));
}

/// Shares the listening sockets of a router that somebody else started.
schema::Result<void> RouterKeeper::adopt(route::RouterProcess found) {
  auto watch = RouterWatch::attach(options_.router.control_path, limits_);
  if (!watch) return launch(false);
  watch_.emplace(std::move(*watch));
  auto listeners = route::ask_for_listeners(options_.router.control_path, Clock::now() + kAnswer);
  if (listeners) {
    options_.listeners = std::move(*listeners);
    if (!route::serves(options_.listeners, options_.router.listen)) {
      log_("warning",
           fmt::format("the router keeps its port {}; router.listen {} takes effect once the router has been "
                       "stopped with driftgate router-stop",
                       found.info.port, options_.router.listen));
    }
  } else {
    options_.listeners.clear();
    log_("warning",
         fmt::format("the router's listening socket cannot be shared ({}); if the router ended, connections "
                     "would be refused for a moment",
                     listeners.error().describe()));
  }
  const std::lock_guard lock(mutex_);
  router_ = std::move(found);
  born_ = Clock::time_point{};
  return {};
}

/// Binds the sockets unless the daemon holds them. `old_address`: also those that settings no longer name.
schema::Result<void> RouterKeeper::listen(bool old_address) {
  const bool kept = !options_.listeners.empty() &&
                    (old_address || route::serves(options_.listeners, options_.router.listen));
  if (kept) return {};
  auto bound = TRY(route::bind_listeners(options_.router.listen, options_.router.threads));
  options_.listeners = std::move(bound);
  return {};
}

schema::Result<void> RouterKeeper::launch(bool old_address) {
  watch_.reset();
  TRY(listen(old_address));
  auto router = TRY(route::spawn_router(options_));
  if (router.adopted) return adopt(std::move(router));
  auto watch = RouterWatch::attach(options_.router.control_path, limits_);
  if (!watch) return schema::wrap(watch.error(), "the router ended as soon as it had started");
  watch_.emplace(std::move(*watch));
  born_ = Clock::now();
  const std::lock_guard lock(mutex_);
  router_ = std::move(router);
  return {};
}

/// False once the keeper is to end.
bool RouterKeeper::wait(std::chrono::milliseconds limit) const {
  pollfd wake{wake_.get(), POLLIN, 0};
  return ::poll(&wake, 1, static_cast<int>(limit.count())) <= 0;
}

void RouterKeeper::run() {
  auto next_look = Clock::now();
  while (wait(std::chrono::milliseconds(0))) {
    const auto done = watch_once(next_look);
    // Until the keeper is to end, an error means only that a router which is well was not handed over.
    if (!done && wait(std::chrono::milliseconds(0))) log_("warning", done.error().describe());
  }
}

/// The keeper's end, a hand-over that is asked for, then the process and the control socket of each router,
/// of that which serves first.
std::vector<pollfd> RouterKeeper::watched_fds() const {
  std::vector<pollfd> watched{{wake_.get(), POLLIN, 0}, {ask_.get(), POLLIN, 0}};
  const auto add = [&watched](const RouterWatch& watch) {
    watched.push_back({watch.process().fd(), POLLIN, 0});
    watched.push_back({watch.socket(), POLLIN, 0});
  };
  add(*watch_);
  for (const auto& retiring : retiring_) add(retiring.watch);
  return watched;
}

/// Waits for the first of: what watched_fds names, the next look.
schema::Result<void> RouterKeeper::watch_once(Time& next_look) {
  auto watched = watched_fds();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_look - Clock::now());
  ::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  if (watched[0].revents != 0) return {};
  const auto now = Clock::now();
  const bool look = now >= next_look;
  if (look) next_look = now + limits_.look_every;
  watch_retiring(watched, now, look);
  if (watched[2].revents != 0) {
    const auto page = watch_->page();
    if (page && page->ended) return replace(take_stock("exited", "it was told to end"), Clock::now());
    return replace(
        take_stock("killed", page ? "it ended unexpectedly"
                                  : "it ended; it is of an older version, which does not report why"),
        Clock::now());
  }
  if (watched[3].revents != 0) watch_->on_readable();
  if (watched[1].revents != 0) {
    eventfd_t asked = 0;
    ::eventfd_read(ask_.get(), &asked);
    return hand_over("it was asked for");
  }
  if (!look) return {};
  const auto hangs = watch_->look(now);
  return hangs ? kill_hung(*hangs) : schema::Result<void>{};
}

schema::Result<void> RouterKeeper::kill_hung(const std::string& reason) {
  const auto since = watch_->hung_since();
  note_down(since);
  const auto unread = route::unread_connections(router().info.port);
  watch_->process().kill();
  log_("warning", fmt::format("router pid={} hangs and was killed: {}", watch_->process().pid(), reason));
  // A process that waits for a disk ends only after that wait, and holds its lock until then.
  while (!watch_->process().wait(limits_.look_every)) {
    if (!wait(std::chrono::milliseconds(0))) return stopping();
  }
  auto loss = take_stock("hung", reason);
  loss.unread = unread;
  return replace(std::move(loss), since);
}

route::RouterLoss RouterKeeper::take_stock(std::string why, std::string reason) const {
  const auto gone = router().info;
  route::RouterLoss loss;
  loss.why = std::move(why);
  loss.reason = std::move(reason);
  loss.pid = watch_->process().pid();
  loss.page = watch_->page();
  loss.router_id = loss.page ? loss.page->router_id : gone.router_id;
  return loss;
}

/// Starts the next router and reports what was lost with the previous one. While the daemon serves it retries
/// until it succeeds; at the daemon's start it tries once.
schema::Result<void> RouterKeeper::replace(route::RouterLoss loss, Time since) {
  note_down(since);
  if (auto kept = route::keep_note(options_.router.control_path, loss); !kept)
    log_("warning", kept.error().describe());
  const bool short_life = born_ != Time{} && Clock::now() - born_ < kShortLife;
  failures_ = short_life ? failures_ + 1 : 0;
  // Only a deliberate stop may move the service to another address; a crash never does.
  const bool old_address = loss.why != "exited";
  for (;; ++failures_) {
    const auto doubled = kFirstWait * (1 << std::min(failures_, 10U)) / 2;
    if (failures_ > 0 && !wait(std::min(doubled, kLongestWait))) return stopping();
    auto started = launch(old_address);
    if (started) break;
    if (!thread_.joinable()) return started;
    log_("warning", fmt::format("the router could not be started: {}", started.error().describe()));
    if (!wait(std::chrono::milliseconds(0))) return stopping();
  }
  loss.down_ms = note_up();
  record(loss);
  return {};
}

/// Notes what was lost with a router that another one replaces, for the log, the next daemon and who is told.
void RouterKeeper::record(route::RouterLoss& loss) {
  const auto next = router();
  loss.replacement_pid = next.info.pid;
  loss.replacement_id = next.info.router_id;
  if (auto kept = route::keep_note(options_.router.control_path, loss); !kept)
    log_("warning", kept.error().describe());
  const bool planned = loss.why == "handed_over";
  log_(planned ? "info" : "warning",
       fmt::format("router replaced why={} pid={} new_pid={} port={} down_ms={} broken_requests={} "
                   "lost_windows={}: {}",
                   loss.why, loss.pid, loss.replacement_pid, next.info.port, loss.down_ms,
                   route::broken_requests(loss), route::lost_windows(loss), loss.reason));
  tell(loss);
}

void RouterKeeper::tell(const route::RouterLoss& loss) {
  const std::lock_guard lock(mutex_);
  ++figures_.replaced[loss.why];
  figures_.broken_requests += route::broken_requests(loss);
  figures_.lost_windows += route::lost_windows(loss);
  if (tell_) return tell_(loss);
  untold_.push_back(loss);
}

}  // namespace driftgate::app
