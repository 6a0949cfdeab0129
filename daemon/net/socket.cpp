#include "daemon/net/socket.hpp"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "daemon/base/poll_until.hpp"
#include "daemon/net/tls_client.hpp"
#include "schema/failf.hpp"

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
    return schema::failf(ErrorCode::unavailable, "cannot resolve host '{}': {}", host, gai_strerror(rc));
  return AddressList(list, &freeaddrinfo);
}

std::string numeric(const addrinfo& address) {
  char text[NI_MAXHOST] = {};
  const int rc =
      getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return rc == 0 ? std::string(text) : std::string("?");
}

}  // namespace

schema::Result<void> wait_for(int fd, short events, const Deadline& deadline) {
  const int ready = base::poll_until(fd, events, deadline.at(), deadline.cancel());
  if (ready > 0) return {};
  if (ready == 0) return fail(ErrorCode::deadline_exceeded, "no answer within the time limit");
  if (errno == ECANCELED) return fail(ErrorCode::unavailable, "the exchange was cancelled");
  return schema::failf(ErrorCode::io, "poll failed: {}", std::strerror(errno));
}

Socket::Socket() = default;
Socket::Socket(int fd) : fd_(fd) {}
Socket::~Socket() = default;
Socket::Socket(Socket&& other) noexcept = default;
Socket& Socket::operator=(Socket&& other) noexcept = default;

void Socket::close() {
  tls_.reset();
  fd_.reset();
}

schema::Result<Socket> Socket::connect(const std::string& host, std::uint16_t port,
                                       const AcceptAddress& accept, const Deadline& deadline) {
  const auto list = TRY(resolve(host, port));
  auto last = schema::failf(ErrorCode::forbidden,
                            "no address of host '{}' is allowed: loopback, private and link-local addresses "
                            "need the host in engines.allowed_hosts",
                            host);
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    if (accept && !accept(numeric(*address))) continue;
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int error = socket.open() ? 0 : errno;
    if (error == 0 && ::connect(socket.fd_.get(), address->ai_addr, address->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        TRY(wait_for(socket.fd_.get(), POLLOUT, deadline));
        socklen_t size = sizeof error;
        getsockopt(socket.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) {
      const int on = 1;
      setsockopt(socket.fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return socket;
    }
    last = schema::failf(ErrorCode::unavailable, "cannot connect to {} port {}: {}", host, port,
                         std::strerror(error));
  }
  return last;
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
      return schema::failf(ErrorCode::unavailable, "connection lost while sending: {}", std::strerror(errno));
    TRY(wait_for(fd_.get(), POLLOUT, deadline));
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
      return schema::failf(ErrorCode::unavailable, "connection lost while reading: {}", std::strerror(errno));
    TRY(wait_for(fd_.get(), POLLIN, deadline));
  }
}

}  // namespace driftgate::net
