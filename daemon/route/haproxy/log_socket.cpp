#include "daemon/route/haproxy/log_socket.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "daemon/route/haproxy/log_line.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::haproxy {
namespace {

constexpr int kReceiveBytes = 8 << 20;  // as much of it as net.core.rmem_max allows
constexpr std::chrono::milliseconds kTickEvery{50};
constexpr int kMostInARow = 256;  // datagrams between two ticks

std::unexpected<schema::Error> cannot_bind(const std::string& place) {
  return schema::failf(schema::ErrorCode::io, "cannot receive HAProxy's log at {}: {}", place,
                       std::strerror(errno));
}

void widen(int socket) {
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
}

schema::Result<base::UniqueFd> bind_udp(const std::string& place, const Endpoint& at) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(at.port);
  const bool is_four = ::inet_pton(AF_INET, at.host.c_str(), &four.sin_addr) == 1;
  const bool is_six = !is_four && ::inet_pton(AF_INET6, at.host.c_str(), &six.sin6_addr) == 1;
  const bool loopback = (is_four && (ntohl(four.sin_addr.s_addr) >> 24) == 127) ||
                        (is_six && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr));
  if (!loopback || at.port == 0)
    return schema::failf(
        schema::ErrorCode::invalid_argument,
        "'{}' cannot receive HAProxy's log: it must be a loopback address with a port, such as "
        "127.0.0.1:7514, or the path of a socket",
        place);
  base::UniqueFd socket(::socket(is_four ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return cannot_bind(place);
  widen(socket.get());
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RXQ_OVFL, &yes, sizeof yes);
  const auto* address =
      is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  const auto size = static_cast<socklen_t>(is_four ? sizeof four : sizeof six);
  if (::bind(socket.get(), address, size) != 0) return cannot_bind(place);
  return socket;
}

/// Anyone may write to it, since HAProxy runs under a user of its own; lines carry a secret.
schema::Result<base::UniqueFd> bind_path(const std::string& place) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (place.size() >= sizeof address.sun_path)
    return schema::failf(schema::ErrorCode::invalid_argument, "the path '{}' is too long for a socket",
                         place);
  std::memcpy(address.sun_path, place.data(), place.size());
  struct stat there {};
  if (::lstat(place.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
    return schema::failf(schema::ErrorCode::already_exists, "{} exists and is not a socket; move it away",
                         place);
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return cannot_bind(place);
  widen(socket.get());
  ::unlink(place.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(place.c_str(), 0666) != 0)
    return cannot_bind(place);
  return socket;
}

}  // namespace

schema::Result<base::UniqueFd> bind_log_socket(const std::string& place) {
  if (!place.empty() && place.front() == '/') return bind_path(place);
  const auto at = TRY(parse_authority(place));
  return bind_udp(place, at);
}

LogReader::LogReader(base::UniqueFd socket, Take take, Tick tick)
    : socket_(std::move(socket)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      take_(std::move(take)),
      tick_(std::move(tick)),
      thread_([this] { run(); }) {}

LogReader::~LogReader() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

/// False when there is none. With each datagram the kernel says how many it has dropped before it.
bool LogReader::read_one() {
  std::array<char, kMaxLogLineBytes + 1> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint32_t))> beside;
  iovec data{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  const auto got = ::recvmsg(socket_.get(), &message, 0);
  if (got < 0) return false;
  for (auto* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SO_RXQ_OVFL) continue;
    std::uint32_t dropped = 0;
    std::memcpy(&dropped, CMSG_DATA(head), sizeof dropped);
    overflowed_ = dropped;
  }
  take_(std::string_view(bytes.data(), static_cast<std::size_t>(got)));
  return true;
}

void LogReader::run() {
  for (;;) {
    std::array<pollfd, 2> watched{{{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}}};
    ::poll(watched.data(), watched.size(), static_cast<int>(kTickEvery.count()));
    if (watched[0].revents != 0) return;
    for (int i = 0; i < kMostInARow && read_one(); ++i) {
    }
    tick_();
  }
}

}  // namespace driftgate::route::haproxy
