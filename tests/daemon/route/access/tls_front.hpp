#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.hpp"

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

namespace driftgate::route {

/// TLS in front of an engine that speaks plain HTTP, as a gateway has it: what comes in goes on to the engine
/// and back. One thread for each connection.
class TlsFront {
 public:
  /// `engine_url` is "http://127.0.0.1:PORT"; PEM files.
  TlsFront(const std::string& engine_url, const std::string& certificate, const std::string& key);
  ~TlsFront();

  [[nodiscard]] std::string url() const { return "https://127.0.0.1:" + std::to_string(port_); }
  /// Connections whose handshake was done.
  [[nodiscard]] int handshakes() const { return handshakes_; }

 private:
  void accept_all();
  void serve(int client);
  void keep(int fd);

  std::uint16_t engine_port_ = 0, port_ = 0;
  SSL_CTX* context_ = nullptr;
  base::UniqueFd listener_;
  std::atomic<int> handshakes_ = 0;
  std::mutex mutex_;
  std::vector<base::UniqueFd> sockets_;  ///< closed at the end, so that no number is used twice
  std::vector<std::thread> threads_;
  bool stopping_ = false;
  std::thread acceptor_;
};

}  // namespace driftgate::route
