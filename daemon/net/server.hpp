#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/net/request.hpp"
#include "daemon/net/response.hpp"
#include "daemon/net/tls_files.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// Which threads answer a request, so that no kind of request keeps another kind waiting.
enum class Lane : std::uint8_t {
  ordinary,      ///< the workers
  urgent,        ///< a thread of its own: what must find one whatever the others do
  long_running,  ///< a few threads behind a short queue, for seconds and minutes; stopped when nobody waits
};

/// What answers requests. before_body and handle run on any thread of the request's lane and may block for a
/// bounded time. An exception becomes a 500 and a log line.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Asked when the head is complete and before any byte of the body matters: credentials, unknown
  /// paths. An answer here refuses the request; it may leave something in `head.context`.
  virtual std::optional<Response> before_body(RequestHead& head) = 0;
  virtual Response handle(const Request& request) = 0;
  /// Of a request whose head is complete, for `handle`; before_body of a long one is ordinary work. Runs on
  /// the socket thread and must not block.
  virtual Lane lane_of(const RequestHead& /*head*/) { return Lane::ordinary; }
};

/// Where to listen and the limits of docs/design/evidence.md, "Limits on what comes in".
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0 picks a free one, see Server::port
  int listener = -1;       ///< a listening TCP socket to take over instead of binding the address; -1: none
  std::size_t worker_threads = 4;
  std::size_t queue_limit = 256;  ///< requests waiting for a worker; beyond it 503
  std::size_t urgent_threads = 1;      ///< of Lane::urgent, with a queue as long
  std::size_t long_threads = 2;        ///< of Lane::long_running
  std::size_t long_queue = 8;          ///< long requests waiting for one of these; beyond it 503
  std::size_t max_connections = 1024;  ///< fewer where the limit of open files does not have so many
  std::size_t max_connections_per_address = 256;  ///< an IPv6 /64 counts as one address
  std::size_t max_head_bytes = 16 * 1024;
  std::size_t max_body_bytes = 1024 * 1024;
  std::size_t body_memory_bytes = 64 * 1024 * 1024;  ///< of all bodies that are not complete together
  std::chrono::milliseconds head_timeout{10'000};  ///< from its first byte, absolute
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds idle_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};
  TlsServerFiles tls{};                               ///< none: plain HTTP
  std::chrono::milliseconds heartbeat{15'000};        ///< comment line on silent event streams
  std::function<void(std::string_view message)> log{};  ///< failures that no client sees; may be empty
};

/// An HTTP/1.1 server: one thread for all sockets, a pool for the handler.
class Server {
 public:
  /// Binds, listens and serves. `io` or `invalid_argument` when it cannot listen on the address; errors of
  /// load_tls. `handler` must outlive the server.
  static schema::Result<std::unique_ptr<Server>> start(ServerOptions options, Handler& handler);
  ~Server();

  [[nodiscard]] std::uint16_t port() const;
  /// Something has changed that event streams or deferred answers may be waiting for. Any thread, never
  /// blocks.
  void wake_streams();
  /// Takes no new connections, ends streams, lets requests in flight finish until the deadline, then
  /// closes everything. Afterwards no handler call is running.
  void stop(std::chrono::milliseconds deadline);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::net
