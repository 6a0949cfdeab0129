#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/route/control/telemetry.hpp"
#include "daemon/route/worker/router_page.hpp"

namespace driftgate::route {

enum class MirrorEnd : std::uint8_t { written, failed, skipped };

struct LedgerLimits {
  std::size_t windows = 720;                  ///< closed windows of one model kept until acknowledged
  std::size_t all_windows = 65'536;           ///< of all models together (about 40 MB without observations)
  std::size_t kept_observations = 1'048'576;  ///< in all closed windows together (about 150 MB)
  std::size_t held_back = 262'144;            ///< of one model, waiting for an earlier request
  std::size_t window_observations = kMaxObservations;
  std::size_t window_bytes = 8u << 20;  ///< of a window in JSON; a fuller one is closed early
};

/// Telemetry in routing order, per model: an observation is released into its window once every request
/// of the model that was routed before it has ended or is past its deadline. One that may outlive its
/// deadline, and does, holds nothing back any more and is released when it ends, with the time of that
/// window. Safe from any thread; time is passed in. What exceeds a limit is counted in `dropped` of the
/// model's next window. Over its limit of windows a model loses its own oldest; over the limits of all models
/// together, the model that keeps most does.
class Ledger {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Slot;
  using Ticket = std::shared_ptr<Slot>;

  explicit Ledger(std::string router_id, LedgerLimits limits = {});

  /// Keeps what has not been acknowledged counted on the page, which lives longer; before any request.
  void count_on(RouterPage& page) { page_ = &page; }

  /// A request was routed, of which `seen` has all but its order and its ending; it ends before `deadline` or
  /// is reported as a timeout. Never fails: a null ticket means that it is only counted as dropped.
  Ticket begin(const std::string& model, std::string stage_key, Observation seen, Time deadline);
  /// Repeating it, or a null ticket, changes nothing.
  void finish(const Ticket& ticket, const Ending& ending, Time now);
  /// The answer is being passed on and may take longer than a request: past its deadline it is no timeout,
  /// and is reported when it has ended. Not for a null ticket. Takes no lock.
  static void outlive(const Ticket& ticket);
  [[nodiscard]] static std::uint64_t order_of(const Ticket& ticket);

  void count_mirror(std::string_view model, std::string_view stage_key, MirrorEnd end);
  /// A request that is not judged was passed on; `failed`: no engine answered it well.
  void count_other(const std::string& model, std::string_view stage_key, bool failed);
  /// So many requests of the model were served and will never be reported.
  void count_lost(const std::string& model, std::uint64_t requests);

  /// Closes what is open, and an empty window for each (model, stage key) of `routed` that has a stage and
  /// had no request. Where that makes no window at all, the first of `routed` gets an empty one: telemetry
  /// comes.
  void close_windows(const std::vector<std::pair<std::string, std::string>>& routed, std::int64_t now_us,
                     Time now);

  /// Closed windows with number > after, oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<const Window>> windows(std::uint64_t after,
                                                                   std::size_t limit) const;
  /// Forgets windows up to `number`; a number that was never issued is ignored.
  void acknowledge(std::uint64_t number);
  /// Forgets windows of one model up to `number`; a number that was never issued is ignored.
  void acknowledge(std::string_view model, std::uint64_t number);
  /// Waits until every request has ended and every window is acknowledged; false when the deadline came
  /// first.
  bool wait_until_delivered(Time deadline);
  [[nodiscard]] const std::string& router_id() const { return router_id_; }

 private:
  struct OpenWindow {
    Window window;
    std::size_t bytes = 0;
  };
  struct Model {
    std::deque<Ticket> pending;
    std::size_t apart = 0;  ///< requests that outlive their deadline: no more in pending, and not ended
    std::vector<OpenWindow> open;  ///< one for each stage key seen since the last close
    std::int64_t closed_us = 0;
    std::uint64_t lost = 0;
    std::uint64_t last_number = 0;  ///< of its newest closed window
    std::deque<std::uint64_t> kept_windows;  ///< numbers of its windows in closed_, oldest first
    std::size_t kept_observations = 0;
    ModelCounters* counters = nullptr;  ///< on the page
  };

  /// Writes the model's counts to the page.
  void count(const std::string& model, Model& state);
  OpenWindow& open_window(const std::string& model, Model& state, std::string_view stage_key);
  void release(const std::string& model, Model& state, Time now);
  void emit(const std::string& model, Model& state, Slot& slot);
  void close(Model& state, OpenWindow& open, std::int64_t now_us);
  void bound_closed(Model& newest);
  void drop_oldest(Model& of);
  std::shared_ptr<const Window> forget(Model& of);

  const std::string router_id_;
  const LedgerLimits limits_;
  RouterPage* page_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable acknowledged_;
  std::uint64_t next_order_ = 1;
  std::uint64_t next_number_ = 1;
  std::map<std::string, Model, std::less<>> models_;
  std::map<std::uint64_t, std::shared_ptr<const Window>> closed_;  ///< by number
  std::size_t kept_observations_ = 0;
};

}  // namespace driftgate::route
