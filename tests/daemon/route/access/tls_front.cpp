#include "tests/daemon/route/access/tls_front.hpp"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace driftgate::route {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool send_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const auto sent = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

/// Carries bytes both ways until one side ends. One thread alone uses `ssl`.
void carry(SSL* ssl, int client, int engine) {
  std::array<char, 16'384> bytes;
  for (;;) {
    std::array<pollfd, 2> watched{{{client, POLLIN, 0}, {engine, POLLIN, 0}}};
    if (SSL_pending(ssl) > 0) {
      watched[0].revents = POLLIN;
    } else if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
      return;
    }
    if (watched[0].revents != 0) {
      const int got = SSL_read(ssl, bytes.data(), static_cast<int>(bytes.size()));
      if (got <= 0 || !send_all(engine, bytes.data(), static_cast<std::size_t>(got))) return;
    }
    if (watched[1].revents != 0) {
      const auto got = ::recv(engine, bytes.data(), bytes.size(), 0);
      if (got <= 0 || SSL_write(ssl, bytes.data(), static_cast<int>(got)) <= 0) return;
    }
  }
}

}  // namespace

TlsFront::TlsFront(const std::string& engine_url, const std::string& certificate, const std::string& key)
    : engine_port_(static_cast<std::uint16_t>(std::stoi(engine_url.substr(engine_url.rfind(':') + 1)))),
      context_(SSL_CTX_new(TLS_server_method())),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets that the other side may have closed
  const bool loaded = SSL_CTX_use_certificate_chain_file(context_, certificate.c_str()) == 1 &&
                      SSL_CTX_use_PrivateKey_file(context_, key.c_str(), SSL_FILETYPE_PEM) == 1;
  auto address = loopback(0);
  socklen_t size = sizeof address;
  const bool listening = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                         ::listen(listener_.get(), 256) == 0 &&
                         ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!loaded || !listening) throw std::runtime_error("the TLS front cannot start");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

TlsFront::~TlsFront() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    for (const auto& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
  }
  acceptor_.join();
  for (auto& thread : threads_) thread.join();
  SSL_CTX_free(context_);
}

/// A socket that the end of the front shuts down.
void TlsFront::keep(int fd) {
  const std::lock_guard lock(mutex_);
  sockets_.emplace_back(fd);
  if (stopping_) ::shutdown(fd, SHUT_RDWR);
}

void TlsFront::accept_all() {
  for (;;) {
    const int client = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    keep(client);
    threads_.emplace_back([this, client] { serve(client); });
  }
}

void TlsFront::serve(int client) {
  SSL* const ssl = SSL_new(context_);
  SSL_set_fd(ssl, client);
  if (SSL_accept(ssl) == 1) {
    ++handshakes_;
    const int engine = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    keep(engine);
    const auto address = loopback(engine_port_);
    if (::connect(engine, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      carry(ssl, client, engine);
      SSL_shutdown(ssl);
    }
    ::shutdown(engine, SHUT_RDWR);
  }
  ::shutdown(client, SHUT_RDWR);
  SSL_free(ssl);
}

}  // namespace driftgate::route
