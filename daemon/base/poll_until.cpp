#include "daemon/base/poll_until.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace driftgate::base {
namespace {

constexpr std::int64_t kLongestPoll_ms = 24 * 3'600 * 1'000;

}  // namespace

int poll_until(int fd, short events, std::chrono::steady_clock::time_point deadline, int cancel) {
  using Clock = std::chrono::steady_clock;
  for (;;) {
    const auto now = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(deadline, now) - now).count();
    std::array<pollfd, 2> watched{{{fd, events, 0}, {cancel, POLLIN, 0}}};
    const int ready = ::poll(watched.data(), watched.size(),
                             static_cast<int>(std::min<std::int64_t>(left, kLongestPoll_ms)));
    if (ready > 0 && watched[1].revents != 0) {
      errno = ECANCELED;
      return -1;
    }
    const bool again = ready < 0 ? errno == EINTR : ready == 0 && Clock::now() < deadline;
    if (!again) return ready;
  }
}

}  // namespace driftgate::base
