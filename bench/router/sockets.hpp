#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.hpp"

namespace driftgate::bench {

/// Ends the program: nothing can be measured.
[[noreturn]] void fail(std::string_view what);
/// The same with the meaning of errno.
[[noreturn]] void fail_by_errno(std::string_view what);

/// Lets the process have as many descriptors as it may, and timers as exact as the kernel has them.
void raise_limits();

/// A listening socket on 127.0.0.1, not blocking; port 0 picks a free one. Several may share a port.
[[nodiscard]] base::UniqueFd listen_on(std::uint16_t port);
[[nodiscard]] std::uint16_t port_of(int fd);

/// A connection to 127.0.0.1 without Nagle's algorithm. Its calls wait for at most 10 s.
[[nodiscard]] base::UniqueFd connect_to(std::uint16_t port);
void do_not_block(int fd);

/// An epoll instance, level-triggered.
class Poller {
 public:
  Poller();
  /// `mark` comes back with what happens to `fd`.
  void add(int fd, std::uint64_t mark);
  /// Whether room to write is reported too.
  void watch_writing(int fd, std::uint64_t mark, bool writing);
  /// What is ready, after waiting until `until_ns` of CLOCK_MONOTONIC at most.
  [[nodiscard]] std::span<const epoll_event> wait(std::uint64_t until_ns);

 private:
  base::UniqueFd epoll_;
  std::vector<epoll_event> ready_;
};

}  // namespace driftgate::bench
