#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "daemon/route/worker/process_threads.hpp"
#include "daemon/route/worker/router_page.hpp"

namespace driftgate::route {

/// What a judge can ask about a router while it looks. A seam for tests.
class RouterSigns {
 public:
  virtual ~RouterSigns() = default;
  /// Beats of each worker's event loop; empty for a router without a shared page.
  virtual std::vector<WorkerSign> workers() = 0;
  virtual std::vector<ThreadState> threads() = 0;
  /// The thread that answers on the control socket; 0 = not known.
  virtual int control_tid() = 0;
  /// Questions on the control socket in a row that got no answer within their deadline.
  virtual int unanswered() = 0;
};

struct HangLimits {
  std::chrono::milliseconds look_every{200};
  std::chrono::milliseconds late{500};     ///< a look so much behind its time judges nothing
  std::chrono::milliseconds stall{1'000};  ///< without a beat, although the thread could have run
  std::chrono::milliseconds disk{30'000};  ///< the same while a thread of the process waits for a disk
  std::chrono::milliseconds starved{30'000};  ///< the same while its threads waited for a processor for half a stall
  int unanswered = 2;
};

/// Decides that a router hangs: a worker's event loop does not come round, or the control thread does not
/// answer, and neither a slow machine nor a slow disk explains it. A thread that is runnable and gets no
/// processor is starved, not hung: it hangs once it has used the time of a stall for itself. One that waits
/// for a disk gets longer, since no signal ends that wait either; so does one of a process whose threads waited
/// long for a processor, since it may wait for a lock that one of them holds. A judge that was itself called
/// late starts over.
class HangJudge {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit HangJudge(HangLimits limits = {}) : limits_(limits) {}

  /// Why the router hangs, or nothing. Called every `look_every`.
  [[nodiscard]] std::optional<std::string> look(RouterSigns& signs, Time now);
  /// When the stall that was found began.
  [[nodiscard]] Time since() const { return since_; }

 private:
  struct Seen {
    std::uint64_t beats = 0;
    Time moved{};
    std::chrono::milliseconds waited{0};  ///< of all threads, when it moved last
    std::optional<std::chrono::milliseconds> cpu{};  ///< when it was first seen to stand still
  };
  [[nodiscard]] std::optional<std::string> judge(RouterSigns& signs, const std::string& who, int tid,
                                                 Seen& seen, Time now);

  const HangLimits limits_;
  Time last_{};
  Time since_{};
  std::vector<Seen> workers_;
  Seen control_;
};

}  // namespace driftgate::route
