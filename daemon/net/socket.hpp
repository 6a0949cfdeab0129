#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/base/unique_fd.hpp"
#include "daemon/net/tls_files.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// A point on the monotonic clock, or never; and what ends waits before it.
class Deadline {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// `after` from now; 0 means never. Once the descriptor `cancel` is readable waits end at once; -1: there
  /// is none.
  explicit Deadline(std::chrono::milliseconds after, int cancel = -1)
      : at_(after.count() > 0 ? Time::clock::now() + after : Time::max()), cancel_(cancel) {}
  /// This one, but not later than in `after`; 0 changes nothing.
  [[nodiscard]] Deadline within(std::chrono::milliseconds after) const {
    Deadline other(after, cancel_);
    return at_ < other.at_ ? *this : other;
  }
  [[nodiscard]] Time at() const { return at_; }
  [[nodiscard]] int cancel() const { return cancel_; }

 private:
  Time at_;
  int cancel_;
};

/// Waits until the descriptor is ready for `events` of poll(2); `deadline_exceeded` otherwise, `unavailable`
/// once it is cancelled.
[[nodiscard]] schema::Result<void> wait_for(int fd, short events, const Deadline& deadline);

class TlsClient;

/// A connected, non-blocking TCP socket, owned. All waits end at a deadline.
class Socket {
 public:
  Socket();
  explicit Socket(int fd);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  using AcceptAddress = std::function<bool(std::string_view address)>;
  /// Resolves and connects to the first address that `accept` allows and that answers. Resolving a
  /// name takes the resolver's own time limits. `unavailable`, `forbidden`, `deadline_exceeded`.
  static schema::Result<Socket> connect(const std::string& host, std::uint16_t port,
                                        const AcceptAddress& accept, const Deadline& deadline);

  /// Puts the connection under TLS, checking the server's certificate for `host`. Errors of
  /// TlsClient::connect.
  schema::Result<void> start_tls(const std::string& host, const TlsClientFiles& files,
                                 const Deadline& deadline);

  /// Writes all bytes. `unavailable` when the peer is gone.
  schema::Result<void> write(std::string_view bytes, const Deadline& deadline);
  /// At least one byte into `buffer`; 0 at the end of the stream.
  schema::Result<std::size_t> read(char* buffer, std::size_t size, const Deadline& deadline);

  [[nodiscard]] bool open() const { return static_cast<bool>(fd_); }
  void close();

 private:
  base::UniqueFd fd_;
  std::unique_ptr<TlsClient> tls_;
};

}  // namespace driftgate::net
