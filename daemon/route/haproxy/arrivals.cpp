#include "daemon/route/haproxy/arrivals.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace driftgate::route::haproxy {

/// HAProxy counts in 32 bits. A number is the one nearest to the highest so far.
std::uint64_t Arrivals::extended(std::uint32_t order) const {
  const auto ahead = static_cast<std::int32_t>(order - static_cast<std::uint32_t>(highest_));
  const auto number = static_cast<std::int64_t>(highest_) + ahead;
  return number < 0 ? 0 : static_cast<std::uint64_t>(number);
}

void Arrivals::add(LogLine line, Time others_end_by) {
  const auto order = extended(line.order);
  if (order < next_) {
    if (overdue_.erase(order) > 0) late_.push_back(std::move(line));
    return;
  }
  if (order > highest_) {
    // So many requests cannot be in flight: nobody listened meanwhile.
    if (order - highest_ > kMaxGap) {
      std::ranges::move(take(Time::max()), std::back_inserter(late_));
      next_ = order;
    } else if (order > highest_ + 1) {
      gaps_.push_back({order - 1, others_end_by});
    }
    highest_ = order;
  }
  waiting_.emplace(order, std::move(line));
}

void Arrivals::expect(std::uint32_t order, Time end_by) {
  const auto last = extended(order);
  if (last <= highest_ || last - highest_ > kMaxGap) return;
  gaps_.push_back({last, end_by});
  highest_ = last;
}

/// Passes over the next number when it is missing and need not be waited for any more.
bool Arrivals::skip_missing(Time now) {
  while (!gaps_.empty() && gaps_.front().last < next_) gaps_.pop_front();
  if (gaps_.empty()) return false;
  if (now < gaps_.front().until && waiting_.size() < kMaxWaiting) return false;
  if (overdue_.size() >= kMaxWaiting) overdue_.erase(overdue_.begin());
  overdue_.insert(next_++);
  return true;
}

std::vector<LogLine> Arrivals::take(Time now) {
  std::vector<LogLine> taken;
  for (;;) {
    const auto first = waiting_.begin();
    if (first != waiting_.end() && first->first == next_) {
      taken.push_back(std::move(first->second));
      waiting_.erase(first);
      ++next_;
    } else if (!skip_missing(now)) {
      break;
    }
  }
  std::ranges::move(std::exchange(late_, {}), std::back_inserter(taken));
  return taken;
}

}  // namespace driftgate::route::haproxy
