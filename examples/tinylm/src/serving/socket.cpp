#include "examples/tinylm/src/serving/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tinylm {
namespace {

std::string reason() {
  return std::strerror(errno);
}

Result<sockaddr_in> address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &address.sin_addr) != 1)
    return fail("\"" + host + "\" is not a numeric IPv4 address: use one such as 127.0.0.1");
  return address;
}

const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Result<void> wait_for(int descriptor, short events, Milliseconds timeout) {
  pollfd entry{descriptor, events, 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(timeout.count()));
  if (ready > 0) return {};
  return fail(ready == 0 ? "the peer did not respond in time" : "waiting for the socket failed: " + reason());
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Socket> Socket::connect(const std::string& host, std::uint16_t port, Milliseconds timeout) {
  const auto address = address_of(host, port);
  if (!address) return std::unexpected(address.error());
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return fail("cannot make a socket: " + reason());
  if (::connect(socket.descriptor_, generic(*address), sizeof *address) != 0) {
    if (errno != EINPROGRESS) return fail("cannot connect to port " + std::to_string(port) + ": " + reason());
    auto ready = wait_for(socket.descriptor_, POLLOUT, timeout);
    if (!ready) return std::unexpected(ready.error());
    int problem = 0;
    socklen_t size = sizeof problem;
    ::getsockopt(socket.descriptor_, SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem != 0)
      return fail("cannot connect to port " + std::to_string(port) + ": " + std::strerror(problem));
  }
  const int on = 1;
  ::setsockopt(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Result<Socket> Socket::listen(const std::string& host, std::uint16_t port) {
  const auto address = address_of(host, port);
  if (!address) return std::unexpected(address.error());
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return fail("cannot make a socket: " + reason());
  const int on = 1;
  ::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.descriptor_, generic(*address), sizeof *address) != 0 ||
      ::listen(socket.descriptor_, 256) != 0)
    return fail("cannot listen on " + host + ":" + std::to_string(port) + ": " + reason());
  return socket;
}

Result<std::uint16_t> Socket::local_port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail("cannot read the socket's port: " + reason());
  return ntohs(address.sin_port);
}

Result<void> Socket::send_all(std::string_view bytes, Milliseconds timeout) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      auto ready = wait_for(descriptor_, POLLOUT, timeout);
      if (!ready) return ready;
    } else if (errno != EINTR) {
      return fail("sending failed: " + reason());
    }
  }
  return {};
}

Result<std::size_t> Socket::receive(std::span<char> buffer, Milliseconds timeout) {
  while (true) {
    const ssize_t got = ::recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EAGAIN) {
      auto ready = wait_for(descriptor_, POLLIN, timeout);
      if (!ready) return std::unexpected(ready.error());
    } else if (errno != EINTR) {
      return fail("receiving failed: " + reason());
    }
  }
}

Result<Socket> Socket::accept(int wake_descriptor) {
  while (true) {
    std::array<pollfd, 2> entries{{{descriptor_, POLLIN, 0}, {wake_descriptor, POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR)
      return fail("waiting for connections failed: " + reason());
    if (entries[1].revents != 0) return Socket{};
    if (entries[0].revents == 0) continue;
    Socket socket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open()) {
      const bool passing = errno == EINTR || errno == EAGAIN || errno == ECONNABORTED;
      if (passing) continue;
      return fail("accepting a connection failed: " + reason());
    }
    const int on = 1;
    ::setsockopt(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
  }
}

void Socket::shutdown_reading() const {
  ::shutdown(descriptor_, SHUT_RD);
}
void Socket::shutdown_both() const {
  ::shutdown(descriptor_, SHUT_RDWR);
}

}  // namespace tinylm
