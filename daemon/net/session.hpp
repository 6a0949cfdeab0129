#pragma once

#include <algorithm>
#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "daemon/limits/connection_table.hpp"
#include "daemon/limits/descriptors.hpp"
#include "daemon/net/server.hpp"
#include "daemon/net/stream.hpp"
#include "daemon/net/worker_pool.hpp"

namespace driftgate::net {

using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;

class Session;

/// What the listener and its sessions share. Only the socket thread touches it, but for the pools.
struct ServerState {
  static constexpr std::size_t kReservedDescriptors = 256;  ///< database, jobs, outgoing requests

  ServerState(ServerOptions server_options, Handler& request_handler)
      : options(std::move(server_options)),
        handler(request_handler),
        pool(options.worker_threads, options.queue_limit),
        urgent_pool(options.urgent_threads, options.queue_limit),
        long_pool(options.long_threads, options.long_queue),
        connections({limits::connections_that_fit(options.max_connections, 1, kReservedDescriptors),
                     options.max_connections_per_address,
                     std::max(options.body_memory_bytes, options.max_body_bytes)}) {}

  ServerOptions options;
  Handler& handler;
  WorkerPool pool, urgent_pool, long_pool;  ///< of the lanes
  limits::ConnectionTable connections;
  std::map<std::uint64_t, std::weak_ptr<Session>> sessions;
  bool stopping = false;

  [[nodiscard]] WorkerPool& pool_of(Lane lane) {
    return lane == Lane::urgent ? urgent_pool : lane == Lane::long_running ? long_pool : pool;
  }
  void log(const std::string& message) const {
    if (options.log) options.log(message);
  }
};

/// One connection: reads requests one after the other, asks the handler, writes the answers.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(ServerState& state, std::unique_ptr<Stream> stream, std::string remote_address,
          std::unique_ptr<limits::ConnectionTable::Place> place);
  /// What the pool does for a session: an answer, or nothing when there is none to send.
  using Work = std::function<std::optional<Response>()>;

  /// Serves until the connection ends. The caller keeps the session alive meanwhile.
  Awaitable<void> run();
  /// Closes the connection when its deadline is over; a half-read request is told so first. Long work is told
  /// when its client has gone.
  void sweep(std::chrono::steady_clock::time_point now);
  /// Looks again at what a stream or a deferred answer waits for.
  void wake();
  /// The server stops: idle connections close now, others after their answer, and long work is told to end.
  void stop();
  void close();

 private:
  enum class Phase { idle, head, body, working, writing, lingering };

  Awaitable<bool> serve_one();
  Awaitable<std::optional<Response>> read_head(RequestHead& head);
  Awaitable<std::optional<Response>> read_body(Request& request);
  Awaitable<std::optional<Response>> admit(Request& request, Lane lane);
  Awaitable<std::optional<Response>> answer_request(Request& request, Lane lane, bool admitted);
  /// `next`: a further part of work that was taken before.
  Awaitable<std::optional<Response>> on_pool(Work work, Lane lane = Lane::ordinary, bool next = false);
  Awaitable<bool> pull(Work work, Lane lane = Lane::ordinary);
  Awaitable<Response> resolve(std::shared_ptr<Deferred> deferred);
  Awaitable<void> stream(Response response);
  Awaitable<bool> send_chunks(std::string head, std::shared_ptr<BodySource> source, Lane lane);
  Awaitable<bool> send(std::string head, std::string body);
  Awaitable<void> refuse(Response problem, bool with_body);
  Awaitable<void> linger();
  Awaitable<bool> fill(std::size_t most);
  Awaitable<bool> sleep_until(std::chrono::steady_clock::time_point when);
  void enter(Phase phase, std::chrono::milliseconds limit);
  void enter_work();
  void evict();
  [[nodiscard]] bool peer_gone();

  ServerState& state_;
  std::unique_ptr<Stream> stream_;
  std::string remote_address_;
  std::unique_ptr<limits::ConnectionTable::Place> place_;
  Timer finished_;  ///< cancelled when the pool has done the work
  Timer wake_;      ///< cancelled to look again
  std::string buffer_;
  Phase phase_ = Phase::idle;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::steady_clock::time_point entered_;  ///< the phase
  bool woken_ = false;
  std::stop_source long_work_{std::nostopstate};  ///< while a long request is answered
  bool may_ask_ = false;                          ///< whether its client is there, by an interim answer
};

}  // namespace driftgate::net
