#pragma once

#include <chrono>

namespace driftgate::base {

/// poll(2) on one descriptor until a point in time; the clock's largest one stands for no limit. More than 0:
/// it is ready; 0: the time is over; less than 0: it failed, with errno set. Signals do not end the wait.
/// Once `cancel` is readable it fails with ECANCELED; -1: nothing cancels it.
[[nodiscard]] int poll_until(int fd, short events, std::chrono::steady_clock::time_point deadline,
                             int cancel = -1);

}  // namespace driftgate::base
