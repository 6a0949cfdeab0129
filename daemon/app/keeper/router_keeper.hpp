#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/app/keeper/router_watch.hpp"
#include "daemon/route/control/router_loss.hpp"
#include "daemon/route/control/spawn.hpp"

namespace driftgate::app {

/// Keeps a router alive as long as the daemon lives. The listening sockets belong to both: the daemon binds
/// them, or asks an adopted router for copies, so that connections wait in the kernel's queue while one
/// router follows another. The end of the process is an event; one that hangs (HangJudge) is killed. Each
/// replacement is told, with what went with the router before.
///
/// A router that is to be replaced although it is well is *handed over* (router_handover.cpp): another one
/// starts on the same sockets and gets its routes, and only then does it stop accepting; it ends when its
/// requests have, and its telemetry was read.
class RouterKeeper {
 public:
  using Log = std::function<void(std::string_view level, const std::string& text)>;
  using OnReplaced = std::function<void(const route::RouterLoss&)>;

  /// For /metrics, since the daemon started.
  struct Figures {
    std::map<std::string, std::uint64_t> replaced{
        {"exited", 0}, {"handed_over", 0}, {"hung", 0}, {"killed", 0}};  ///< by RouterLoss::why
    std::size_t retiring = 0;  ///< routers that were handed over and have not ended
    std::uint64_t broken_requests = 0;
    std::uint64_t lost_windows = 0;
    std::int64_t down_ms = 0;  ///< without a router, with the time since `up` became false
    bool up = true;            ///< false from the loss of a router until the next one answers
  };

  /// Adopts a living router, or starts one; returns once it answers. One that hangs already is replaced, and
  /// one of another program file or with other settings is handed over, where that can be done.
  static schema::Result<std::unique_ptr<RouterKeeper>> start(route::SpawnOptions options, Log log,
                                                             route::HangLimits limits = {});
  /// The router lives on.
  ~RouterKeeper();
  RouterKeeper(const RouterKeeper&) = delete;
  RouterKeeper& operator=(const RouterKeeper&) = delete;

  /// The router in service, as it was found or started last.
  [[nodiscard]] route::RouterProcess router() const;
  /// Tells each replacement from now on and those so far that nobody was told of, among them those that a
  /// daemon before this one did not record. Called from the keeper's thread, and at once; it must return
  /// soon. Without a function nothing is told, and no call is under way once this returns.
  void on_replaced(OnReplaced tell);
  [[nodiscard]] Figures figures() const;
  /// Hands the router over to a new process, soon. Any thread; returns at once.
  void hand_over_soon();

 private:
  using Time = RouterWatch::Time;

  RouterKeeper(route::SpawnOptions options, Log log, route::HangLimits limits);
  /// A router that was handed over, until it has ended.
  struct Retiring {
    RouterWatch watch;
    std::string socket;  ///< its control socket
    std::string router_id;
    bool told = false;  ///< it knows that it is to end
  };

  schema::Result<void> find();
  schema::Result<void> find_serving();
  void find_retiring();
  void borrow_listeners();
  schema::Result<void> replace_if_other();
  schema::Result<void> hand_over(const std::string& reason);
  schema::Result<void> take_back(const schema::Error& why);
  void give_routes(const std::string& socket);
  void let_end(Retiring& retiring);
  void watch_retiring(const std::vector<pollfd>& watched, Time now, bool look);
  void bury(const Retiring& gone, const std::string& hangs);
  void count_retiring();
  schema::Result<void> settle_silent();
  schema::Result<void> adopt(route::RouterProcess found);
  schema::Result<void> launch(bool old_address);
  schema::Result<void> listen(bool old_address);
  void run();
  [[nodiscard]] std::vector<pollfd> watched_fds() const;
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const;
  schema::Result<void> watch_once(Time& next_look);
  schema::Result<void> kill_hung(const std::string& reason);
  schema::Result<void> replace(route::RouterLoss loss, Time since);
  [[nodiscard]] route::RouterLoss take_stock(std::string why, std::string reason) const;
  void note_down(Time since);
  std::int64_t note_up();
  void record(route::RouterLoss& loss);
  void tell(const route::RouterLoss& loss);

  route::SpawnOptions options_;  ///< with the listening sockets
  const Log log_;
  const route::HangLimits limits_;
  std::optional<RouterWatch> watch_;
  std::list<Retiring> retiring_;
  Time born_{};                 ///< when the present router answered first
  std::uint32_t failures_ = 0;  ///< starts in a row that failed, or did not last
  base::UniqueFd wake_;         ///< readable once the keeper is to end
  base::UniqueFd ask_;          ///< readable while a hand-over is asked for

  mutable std::mutex mutex_;  ///< guards what follows
  route::RouterProcess router_;
  Figures figures_;                 ///< `down_ms` of what is over, `up` unset
  std::optional<Time> down_since_;  ///< while no router serves
  OnReplaced tell_;
  std::vector<route::RouterLoss> untold_;

  std::thread thread_;
};

}  // namespace driftgate::app
