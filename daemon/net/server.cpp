#include "daemon/net/server.hpp"

#include <fmt/core.h>
#include <sys/socket.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "daemon/net/session.hpp"
#include "daemon/net/tls_server.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

using Clock = std::chrono::steady_clock;
using tcp = asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

constexpr std::chrono::milliseconds kSweepInterval{250};
constexpr std::chrono::milliseconds kAcceptRetry{100};
constexpr std::chrono::milliseconds kAfterEviction{1};  ///< until an evicted connection is closed

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options, Handler& handler)
      : io(1), acceptor(io.get_executor()), sweeper(io.get_executor()), state(std::move(options), handler) {}

  asio::io_context io;
  Acceptor acceptor;
  Timer sweeper;
  ServerState state;
  TlsContext tls;
  std::uint64_t next_session = 1;
  std::uint16_t port = 0;
  std::thread thread;

  schema::Result<void> listen();
  schema::Result<void> inherit(int listener);
  Awaitable<void> accept_loop();
  void admit(TcpSocket socket);
  void refuse(TcpSocket& socket);
  Awaitable<void> sweep_loop();
  void for_each_session(const std::function<void(Session&)>& action);
};

/// Takes over a socket that another process bound.
schema::Result<void> Server::Impl::inherit(int listener) {
  boost::system::error_code error;
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    error.assign(errno, boost::system::system_category());
  const bool tcp_socket = at.ss_family == AF_INET || at.ss_family == AF_INET6;
  if (!error && tcp_socket)
    acceptor.assign(at.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener, error);
  if (error || !tcp_socket)
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "descriptor {}, handed over to be listened on, is no TCP socket: {}", listener,
                         error ? error.message() : "another family of addresses");
  port = acceptor.local_endpoint().port();
  return {};
}

schema::Result<void> Server::Impl::listen() {
  if (state.options.listener >= 0) return inherit(state.options.listener);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(state.options.address, error);
  if (error)
    return schema::failf(schema::ErrorCode::invalid_argument, "'{}' is not a numeric address to listen on",
                         state.options.address);
  const tcp::endpoint endpoint(address, state.options.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(limits::kListenBacklog, error);
  if (error)
    return schema::failf(schema::ErrorCode::io,
                         "cannot listen on {} port {}: {}; is another daemon running there?",
                         state.options.address, state.options.port, error.message());
  port = acceptor.local_endpoint().port();
  return {};
}

Awaitable<void> Server::Impl::accept_loop() {
  while (acceptor.is_open()) {
    TcpSocket socket(io.get_executor());
    auto [error] = co_await acceptor.async_accept(socket, kAwait);
    if (!error) {
      admit(std::move(socket));
      continue;
    }
    if (error == asio::error::operation_aborted) break;
    if (error == asio::error::connection_aborted) continue;
    // Out of descriptors or memory: evict an idle connection, then accept the next one.
    const bool room = state.connections.evict_one();
    if (!room) state.log(fmt::format("cannot accept a connection: {}", error.message()));
    Timer pause(io.get_executor(), room ? kAfterEviction : kAcceptRetry);
    co_await pause.async_wait(kAwait);
  }
}

/// One attempt without waiting: a client over the limit must not cost more than that.
void Server::Impl::refuse(TcpSocket& socket) {
  if (tls) return;
  write_at_once(socket, format_whole(plain_problem(503, "unavailable",
                                                   "Too many connections. Close some or try again later.")));
}

void Server::Impl::admit(TcpSocket socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return;
  const std::string address = peer.address().to_string();
  auto place = state.stopping ? nullptr : state.connections.admit(limits::Source::of(address));
  if (!place) return refuse(socket);
  socket.set_option(tcp::no_delay(true), error);
  const std::uint64_t id = next_session++;
  auto stream = tls ? tls_stream(std::move(socket), tls) : plain_stream(std::move(socket));
  auto session = std::make_shared<Session>(state, std::move(stream), address, std::move(place));
  state.sessions.emplace(id, session);
  asio::co_spawn(io.get_executor(), session->run(), [this, id, session](const std::exception_ptr& failure) {
    if (failure) state.log("a connection ended with an exception");
    session->close();
    state.sessions.erase(id);
  });
}

void Server::Impl::for_each_session(const std::function<void(Session&)>& action) {
  for (const auto& [id, weak] : state.sessions)
    if (const auto session = weak.lock()) action(*session);
}

Awaitable<void> Server::Impl::sweep_loop() {
  for (;;) {
    sweeper.expires_after(kSweepInterval);
    co_await sweeper.async_wait(kAwait);
    if (state.stopping && state.sessions.empty()) break;
    const auto now = Clock::now();
    for_each_session([now](Session& session) { session.sweep(now); });
    if (const auto summary = state.connections.summary(now)) state.log(*summary);
  }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

schema::Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler& handler) {
  auto tls = TRY(options.tls.any() ? load_tls(options.tls) : nullptr);
  auto impl = std::make_unique<Impl>(std::move(options), handler);
  impl->tls = std::move(tls);
  TRY(impl->listen());
  Impl& server = *impl;
  const auto on_end = [&server](const std::exception_ptr& failure) {
    if (failure) server.state.log("a loop of the HTTP server ended with an exception");
  };
  asio::co_spawn(server.io.get_executor(), server.accept_loop(), on_end);
  asio::co_spawn(server.io.get_executor(), server.sweep_loop(), on_end);
  server.thread = std::thread([&server] {
    const auto guard = asio::make_work_guard(server.io);
    server.io.run();
  });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() {
  stop(std::chrono::milliseconds{0});
}

std::uint16_t Server::port() const {
  return impl_->port;
}

void Server::wake_streams() {
  asio::post(impl_->io,
             [impl = impl_.get()] { impl->for_each_session([](Session& session) { session.wake(); }); });
}

void Server::stop(std::chrono::milliseconds deadline) {
  if (!impl_->thread.joinable()) return;
  const auto until = Clock::now() + deadline;
  std::packaged_task<void()> refuse_new([impl = impl_.get()] {
    impl->state.stopping = true;
    boost::system::error_code ignored;
    impl->acceptor.close(ignored);
    impl->for_each_session([](Session& session) { session.stop(); });
  });
  const auto refusing = refuse_new.get_future();
  asio::post(impl_->io, std::move(refuse_new));
  refusing.wait();
  if (!impl_->state.connections.wait_for_none(until)) {
    asio::post(impl_->io,
               [impl = impl_.get()] { impl->for_each_session([](Session& session) { session.close(); }); });
    impl_->state.connections.wait_for_none(Clock::time_point::max());
  }
  impl_->io.stop();
  impl_->thread.join();
}

}  // namespace driftgate::net
