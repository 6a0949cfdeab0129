#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>

#include "daemon/route/asio_types.hpp"
#include "daemon/route/relay/deadlines.hpp"
#include "daemon/route/relay/upstream.hpp"
#include "daemon/route/worker/core.hpp"

namespace driftgate::route {

/// A copy of a request for the candidate, with what the incumbent answered.
struct MirrorJob {
  std::string model;
  std::string stage_key;
  std::uint64_t tokens = 0;        ///< that the request asks for
  std::uint64_t token_budget = 0;  ///< of the stage
  bool stream = false;
  bool incumbent_kept = true;      ///< its answer is whole in the pair
  std::shared_ptr<Engine> engine;  ///< null: there is no candidate, and the incumbent's answer is kept alone
  std::string head;                ///< for the engine
  MirroredPair pair;               ///< all but `candidate`
  Deadlines::Time waits_since{};
};

/// Asks the candidate beside users' traffic, a few requests at a time from a bounded queue, and writes
/// pairs to the spool; where there is no candidate, what the incumbent answered. Users never wait for it and
/// never see its answers. So that latencies can be compared, a copy waits until the candidate has fewer
/// requests in flight than the incumbent had with that request. One thread.
class MirrorQueue {
 public:
  /// A copy that has waited so long is sent whatever the candidate has in flight: an engine that hangs must
  /// show, and copies are not kept back for ever.
  static constexpr std::chrono::seconds kLongestHeldBack{2};

  MirrorQueue(RouterCore& core, UpstreamPool& pool, Deadlines& deadlines)
      : core_(core), pool_(pool), deadlines_(deadlines) {}

  /// Takes the job, or counts it as skipped when a limit stands against it.
  void offer(MirrorJob job);

 private:
  void keep(const MirrorJob& job);
  void start_workers();
  /// Whether the first of those that wait may be sent, beside `others` copies of this thread.
  [[nodiscard]] bool may_send(std::uint32_t others) const;
  [[nodiscard]] MirrorJob take();
  Task<void> work(MirrorJob job);
  Task<void> ask(MirrorJob& job);
  [[nodiscard]] bool still_wanted(const MirrorJob& job) const;
  Task<void> run(MirrorJob& job);
  void record(const MirrorJob& job, bool whole);

  RouterCore& core_;
  UpstreamPool& pool_;
  Deadlines& deadlines_;
  std::deque<MirrorJob> waiting_;
  std::uint32_t running_ = 0;
};

}  // namespace driftgate::route
