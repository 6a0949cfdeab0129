#pragma once
/// TCP sockets on which every wait has a timeout.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "examples/tinylm/src/result.hpp"

namespace tinylm {

using Milliseconds = std::chrono::milliseconds;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  /// Connects to a numeric IPv4 address.
  static Result<Socket> connect(const std::string& host, std::uint16_t port, Milliseconds timeout);
  /// Listens on a numeric IPv4 address; port 0 selects a free one.
  static Result<Socket> listen(const std::string& host, std::uint16_t port);
  Result<std::uint16_t> local_port() const;

  Result<void> send_all(std::string_view bytes, Milliseconds timeout);
  /// Number of bytes read; 0 when the peer has closed.
  Result<std::size_t> receive(std::span<char> buffer, Milliseconds timeout);
  /// Waits for a connection or for `wake_descriptor` to become readable; returns an empty socket for the
  /// latter.
  Result<Socket> accept(int wake_descriptor);
  void shutdown_reading() const;
  void shutdown_both() const;
  bool open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

}  // namespace tinylm
