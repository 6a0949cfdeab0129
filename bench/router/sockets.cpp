#include "bench/router/sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/router/wire.hpp"

namespace driftgate::bench {
namespace {

constexpr std::size_t kMaxReady = 512;
constexpr std::uint32_t kReading = EPOLLIN;
constexpr std::uint32_t kReadingAndWriting = EPOLLIN | EPOLLOUT;
constexpr int kBacklog = 4'096;
constexpr timeval kLongestCall{10, 0};
constexpr std::uint64_t kSecond_ns = 1'000'000'000;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

void set_option(int fd, int level, int name, const auto& value) {
  if (::setsockopt(fd, level, name, &value, sizeof value) != 0)
    fail_by_errno("cannot set an option of a socket");
}

}  // namespace

void fail(std::string_view what) {
  fmt::print(stderr, "router_bench: {}\n", what);
  std::exit(1);
}

void fail_by_errno(std::string_view what) {
  fail(fmt::format("{}: {}", what, std::strerror(errno)));
}

void raise_limits() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) fail_by_errno("cannot read the limit of open files");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) fail_by_errno("cannot raise the limit of open files");
  if (::prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul) != 0) fail_by_errno("cannot set the slack of timers");
}

base::UniqueFd listen_on(std::uint16_t port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_by_errno("cannot make a socket");
  set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  const auto at = loopback(port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    fail_by_errno("cannot listen on 127.0.0.1");
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    fail_by_errno("cannot tell a socket's port");
  return ntohs(at.sin_port);
}

base::UniqueFd connect_to(std::uint16_t port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail_by_errno("cannot make a socket");
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), SOL_SOCKET, SO_RCVTIMEO, kLongestCall);
  set_option(fd.get(), SOL_SOCKET, SO_SNDTIMEO, kLongestCall);
  // What is closed is gone: thousands of connections in TIME_WAIT would take the ports of the next
  // measurement.
  set_option(fd.get(), SOL_SOCKET, SO_LINGER, linger{1, 0});
  const auto at = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
    fail_by_errno(fmt::format("cannot connect to 127.0.0.1:{}", port));
  return fd;
}

void do_not_block(int fd) {
  if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) fail_by_errno("cannot make a socket non-blocking");
}

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), ready_(kMaxReady) {
  if (!epoll_) fail_by_errno("cannot make an epoll instance");
}

void Poller::add(int fd, std::uint64_t mark) {
  epoll_event event{};
  event.events = kReading;
  event.data.u64 = mark;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail_by_errno("cannot watch a socket");
}

void Poller::watch_writing(int fd, std::uint64_t mark, bool writing) {
  epoll_event event{};
  event.events = writing ? kReadingAndWriting : kReading;
  event.data.u64 = mark;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) fail_by_errno("cannot watch a socket");
}

std::span<const epoll_event> Poller::wait(std::uint64_t until_ns) {
  const auto now = now_ns();
  const auto left = until_ns > now ? until_ns - now : 0;
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(left / kSecond_ns);
  timeout.tv_nsec = static_cast<long>(left % kSecond_ns);
  const int ready =
      ::epoll_pwait2(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), &timeout, nullptr);
  if (ready < 0 && errno != EINTR) fail_by_errno("cannot wait for sockets");
  return {ready_.data(), static_cast<std::size_t>(ready < 0 ? 0 : ready)};
}

}  // namespace driftgate::bench
