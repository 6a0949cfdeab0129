#include "daemon/route/control/hang_judge.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace driftgate::route {
namespace {

/// How long the threads of a process together waited for a processor so far.
std::chrono::milliseconds waited_of(const std::vector<ThreadState>& threads) {
  std::chrono::milliseconds sum{0};
  for (const auto& thread : threads) sum += thread.waited;
  return sum;
}

}  // namespace

std::optional<std::string> HangJudge::look(RouterSigns& signs, Time now) {
  const bool late = last_ == Time{} || now - last_ > limits_.look_every + limits_.late;
  last_ = now;
  const auto workers = signs.workers();
  const auto waited = waited_of(signs.threads());
  const bool silent = signs.unanswered() >= limits_.unanswered;
  if (late || workers_.size() != workers.size()) {
    workers_.clear();
    for (const auto& worker : workers) workers_.push_back({worker.beats, now, waited, {}});
    control_ = {0, now, waited, {}};
    return std::nullopt;
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    auto& seen = workers_[i];
    if (workers[i].beats != seen.beats) seen = {workers[i].beats, now, waited, {}};
    if (now - seen.moved < limits_.stall) continue;
    const auto who = fmt::format("event loop {} of {}", i + 1, workers.size());
    auto hangs = judge(signs, who, workers[i].tid, seen, now);
    // What moved while it was looked at was only slow.
    const auto again = hangs ? signs.workers() : workers;
    if (hangs && again.size() == workers.size() && again[i].beats == workers[i].beats) return hangs;
  }
  if (signs.unanswered() == 0) control_ = {0, now, waited, {}};
  if (!silent) return std::nullopt;
  return judge(signs, "the thread of the control socket", signs.control_tid(), control_, now);
}

std::optional<std::string> HangJudge::judge(RouterSigns& signs, const std::string& who, int tid, Seen& seen,
                                            Time now) {
  const auto threads = signs.threads();
  const auto still = std::chrono::duration_cast<std::chrono::milliseconds>(now - seen.moved);
  const bool disk = std::ranges::any_of(threads, [](const auto& thread) { return thread.state == 'D'; });
  if (disk && still < limits_.disk) return std::nullopt;
  const auto thread = std::ranges::find_if(threads, [tid](const auto& one) {
    return tid != 0 ? one.tid == tid : one.state == 'R';  // which one it is, an older router does not tell
  });
  const bool stopped = std::ranges::any_of(threads, [](const auto& one) { return one.state == 'T'; });
  const bool starved = waited_of(threads) - seen.waited >= limits_.stall / 2;
  if (starved && !stopped && still < limits_.starved) return std::nullopt;
  const char state = thread != threads.end() ? thread->state : threads.empty() ? '?' : threads.front().state;
  if (state == 'R' && thread != threads.end()) {
    if (!seen.cpu) seen.cpu = thread->cpu;
    if (thread->cpu - *seen.cpu < limits_.stall) return std::nullopt;
  }
  since_ = seen.moved;
  return fmt::format("{} has not moved for {} ms (state {})", who, still.count(), state);
}

}  // namespace driftgate::route
