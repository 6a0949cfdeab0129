#include "daemon/net/socket.hpp"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "daemon/net/tls_client.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;
using schema::fail;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

schema::Result<AddressList> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (rc != 0)
    return fail(ErrorCode::unavailable, fmt::format("cannot resolve host '{}': {}", host, gai_strerror(rc)));
  return AddressList(list, &freeaddrinfo);
}

std::string numeric(const addrinfo& address) {
  char text[NI_MAXHOST] = {};
  const int rc =
      getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return rc == 0 ? std::string(text) : std::string("?");
}

}  // namespace

Deadline::Deadline(std::chrono::milliseconds after) {
  if (after.count() > 0) at_ = std::chrono::steady_clock::now() + after;
}

Deadline Deadline::sooner(const Deadline& other) const {
  if (!at_) return other;
  if (!other.at_) return *this;
  return *at_ < *other.at_ ? *this : other;
}

int Deadline::remaining_ms() const {
  if (!at_) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*at_ - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 24 * 3600 * 1000));
}

Socket::Socket() = default;
Socket::Socket(int fd) : fd_(fd) {}
Socket::~Socket() {
  close();
}
Socket::Socket(Socket&& other) noexcept = default;
Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::move(other.fd_);
    tls_ = std::move(other.tls_);
  }
  return *this;
}

void Socket::close() {
  tls_.reset();
  fd_.reset();
}

schema::Result<void> Socket::wait(short events, const Deadline& deadline) const {
  for (;;) {
    pollfd item{fd_.get(), events, 0};
    const int rc = poll(&item, 1, deadline.remaining_ms());
    if (rc > 0) return {};
    if (rc == 0) return fail(ErrorCode::deadline_exceeded, "no answer within the time limit");
    if (errno != EINTR) return fail(ErrorCode::io, fmt::format("poll failed: {}", std::strerror(errno)));
  }
}

schema::Result<Socket> Socket::connect(const std::string& host, std::uint16_t port,
                                       const AcceptAddress& accept, const Deadline& deadline) {
  const auto list = TRY(resolve(host, port));
  schema::Error last{
      ErrorCode::forbidden,
      fmt::format("no address of host '{}' is allowed: loopback, private and link-local addresses "
                  "need the host in engines.allowed_hosts",
                  host),
      {},
      nullptr};
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    if (accept && !accept(numeric(*address))) continue;
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = socket.open() ? 0 : errno;
    if (error == 0 && ::connect(socket.fd_.get(), address->ai_addr, address->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        TRY(socket.wait(POLLOUT, deadline));
        socklen_t size = sizeof error;
        getsockopt(socket.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) {
      const int on = 1;
      setsockopt(socket.fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return socket;
    }
    last = schema::Error{ErrorCode::unavailable,
                         fmt::format("cannot connect to {} port {}: {}", host, port, std::strerror(error)),
                         {},
                         nullptr};
  }
  return std::unexpected(last);
}

schema::Result<void> Socket::start_tls(const std::string& host, const TlsClientFiles& files,
                                       const Deadline& deadline) {
  auto tls = TRY(TlsClient::connect(fd_.get(), host, files, deadline));
  tls_ = std::move(tls);
  return {};
}

schema::Result<void> Socket::write(std::string_view bytes, const Deadline& deadline) {
  if (tls_) return tls_->write(bytes, deadline);
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return fail(ErrorCode::unavailable,
                  fmt::format("connection lost while sending: {}", std::strerror(errno)));
    const auto ready = wait(POLLOUT, deadline);
    if (!ready) return ready;
  }
  return {};
}

schema::Result<std::size_t> Socket::read(char* buffer, std::size_t size, const Deadline& deadline) {
  if (tls_) return tls_->read(buffer, size, deadline);
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer, size, 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return fail(ErrorCode::unavailable,
                  fmt::format("connection lost while reading: {}", std::strerror(errno)));
    TRY(wait(POLLIN, deadline));
  }
}

}  // namespace driftgate::net
