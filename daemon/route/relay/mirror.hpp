#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

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
  Deadlines::Time overdue_at{};    ///< since when it holds no other copy back
};

/// Asks the candidate beside users' traffic, a few requests at a time from a bounded queue, and writes
/// pairs to the spool; where there is no candidate, what the incumbent answered. Users never wait for it and
/// never see its answers. So that latencies can be compared, a copy waits until the candidate has fewer
/// requests in flight than the incumbent had with that request. One thread.
class MirrorQueue {
 public:
  /// A copy that takes longer than this, and than so many times what the incumbent took, holds no other one
  /// back any more: an engine that hangs must show, and not in one copy alone.
  static constexpr std::chrono::seconds kLeastOverdue{2};
  static constexpr double kOverdueTimes = 4;

  MirrorQueue(RouterCore& core, UpstreamPool& pool, Deadlines& deadlines)
      : core_(core), pool_(pool), deadlines_(deadlines) {}

  /// Takes the job, or counts it as skipped when a limit stands against it.
  void offer(MirrorJob job);

 private:
  void keep(const MirrorJob& job);
  void start_workers();
  [[nodiscard]] bool may_send() const;  ///< the first of those that wait
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
  std::vector<Deadlines::Time> overdue_at_;  ///< of each copy that is being asked
};

}  // namespace driftgate::route
