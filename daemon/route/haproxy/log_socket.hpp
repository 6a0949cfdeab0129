#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route::haproxy {

/// A socket for log lines, bound and not read yet: "host:port" is UDP, where the host must be a loopback
/// address; anything else is the path of a Unix datagram socket, mode 0666, in place of an older one.
/// `invalid_argument` for a place that cannot be one, `io` when it cannot be bound.
[[nodiscard]] schema::Result<base::UniqueFd> bind_log_socket(const std::string& place);

/// Reads datagrams in a thread of its own, since HAProxy waits for nobody.
class LogReader {
 public:
  using Take = std::function<void(std::string_view line)>;
  using Tick = std::function<void()>;

  /// `take` gets each datagram, `tick` is called every 50 ms at least; both in the thread.
  LogReader(base::UniqueFd socket, Take take, Tick tick);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  /// Datagrams that the socket had no room for. Safe from any thread.
  [[nodiscard]] std::uint64_t overflowed() const { return overflowed_; }

 private:
  void run();
  bool read_one();

  const base::UniqueFd socket_;
  const base::UniqueFd stop_;
  const Take take_;
  const Tick tick_;
  std::atomic<std::uint64_t> overflowed_ = 0;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace driftgate::route::haproxy
