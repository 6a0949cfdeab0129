#include "raw_peer.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

namespace driftgate::net::test {
namespace {

constexpr std::chrono::milliseconds kPatience{120'000};

}  // namespace

Socket connect_and_send(std::uint16_t port, std::string_view bytes) {
  auto socket = Socket::connect("127.0.0.1", port, {}, Deadline(kPatience));
  REQUIRE(socket);
  // A server may refuse and close before everything was sent.
  static_cast<void>(socket->write(bytes, Deadline(kPatience)));
  return std::move(*socket);
}

Socket send_and_end(std::uint16_t port, std::string_view bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Socket peer(fd);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(::shutdown(fd, SHUT_WR) == 0);
  REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  return peer;
}

std::string read_until(Socket& socket, std::string_view until) {
  std::string received;
  std::array<char, 4096> buffer{};
  const Deadline deadline(kPatience);
  for (;;) {
    const auto n = socket.read(buffer.data(), buffer.size(), deadline);
    if (!n || *n == 0) return received;
    received.append(buffer.data(), *n);
    if (!until.empty() && received.find(until) != std::string::npos) return received;
  }
}

std::string exchange(std::uint16_t port, std::string_view bytes, std::string_view until) {
  Socket socket = connect_and_send(port, bytes);
  return read_until(socket, until);
}

CannedServer::CannedServer(std::string answer) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener_, 16) == 0);
  socklen_t size = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, answer = std::move(answer)] {
    for (;;) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      std::array<char, 4096> buffer{};
      static_cast<void>(::recv(fd, buffer.data(), buffer.size(), 0));
      static_cast<void>(::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL));
      ::shutdown(fd, SHUT_WR);
      while (::recv(fd, buffer.data(), buffer.size(), 0) > 0) {
      }
      ::close(fd);
    }
  });
}

CannedServer::~CannedServer() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

TestServer::TestServer(Answer answer, const ServerOptions& options, Check check) {
  handler_.answer = std::move(answer);
  handler_.check = std::move(check);
  auto server = Server::start(options, handler_);
  REQUIRE(server);
  server_ = std::move(*server);
}

}  // namespace driftgate::net::test
