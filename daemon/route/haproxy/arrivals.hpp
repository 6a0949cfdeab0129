#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "daemon/route/haproxy/log_line.hpp"

namespace driftgate::route::haproxy {

/// Puts the lines of one backend of one HAProxy process back into the order in which the requests were
/// routed. HAProxy numbers requests without a gap and tells each when it is over, so that a number that did
/// not come yet is a request in flight: what was routed after it waits until it ends or is past its deadline.
/// Otherwise the quick failures of an arm would count before its slow answers (docs/design/statistics.md,
/// "Single failures"). Time is passed in; one thread.
class Arrivals {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMaxWaiting = 262'144;
  static constexpr std::uint64_t kMaxGap = 262'144;

  /// Requests up to number `base` were routed before anybody listened: they are in no order and are left out.
  explicit Arrivals(std::uint32_t base) : next_(std::uint64_t{base} + 1), highest_(base) {}

  /// `others_end_by`: when every request that was routed before this one has ended or is past its deadline.
  void add(LogLine line, Time others_end_by);
  /// HAProxy says that it has routed requests up to this number, all of which are over by `end_by` or past
  /// their deadline.
  void expect(std::uint32_t order, Time end_by);
  /// Takes the lines that need not wait any more, in order; then those that came past their deadline.
  [[nodiscard]] std::vector<LogLine> take(Time now);
  /// Requests past their deadline that HAProxy did not tell of: they still last, or their lines are lost.
  [[nodiscard]] std::size_t overdue() const { return overdue_.size(); }

 private:
  /// Numbers up to `last` that were missing when a later one was heard of.
  struct Gap {
    std::uint64_t last = 0;
    Time until{};
  };
  [[nodiscard]] std::uint64_t extended(std::uint32_t order) const;
  bool skip_missing(Time now);

  std::uint64_t next_;     ///< the first number that was not taken
  std::uint64_t highest_;  ///< that was heard of
  std::map<std::uint64_t, LogLine> waiting_;
  std::deque<Gap> gaps_;
  std::set<std::uint64_t> overdue_;  ///< passed over, and may still come
  std::vector<LogLine> late_;
};

}  // namespace driftgate::route::haproxy
