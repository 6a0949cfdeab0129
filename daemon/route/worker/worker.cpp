#include "daemon/route/worker/worker.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/route/relay/prober.hpp"
#include "daemon/route/relay/session.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, IoExecutor>;

constexpr int kTicksPerPrune = 250;  // about 5 s
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kAfterEviction{1};  ///< until an evicted connection is closed

Task<void> drive(std::shared_ptr<Session> session) {
  co_await session->run();
}

void refuse_connection(TcpSocket& socket) {
  const auto text = refusal_answer(
      {503, "too_many_connections", "too many connections to the router; try again later"}, false);
  // One attempt without waiting: a client over the limit must not cost more than that.
  if (::send(socket.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
  boost::system::error_code ignored;
  socket.shutdown(TcpSocket::shutdown_send, ignored);
}

/// Its sockets and timers are used by its own thread alone once that runs, so that they need no locks of the
/// event loop (UNSAFE_IO); other threads only post, and the resolver's thread does too.
class LoopWorker final : public Worker {
 public:
  LoopWorker(RouterCore& core, std::uint64_t random_seed, std::size_t number)
      : core_(core),
        number_(number),
        io_(std::make_unique<asio::io_context>(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO)),
        context_(*io_, core, random_seed),
        prober_(core, *io_, context_.deadlines) {}

  ~LoopWorker() override {
    io_->stop();
    if (thread_.joinable()) thread_.join();
    // What holds sockets goes before the loop; sessions go with the loop and still use the context.
    acceptor_.reset();
    timer_.reset();
    context_.pool.clear();
    prober_.clear();
    io_.reset();
  }

  schema::Result<void> listen(base::UniqueFd listener) override {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    boost::system::error_code error;
    acceptor_.emplace(io_->get_executor());
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0)
      error.assign(errno, boost::system::system_category());
    const auto protocol = at.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
    if (!error) acceptor_->assign(protocol, listener.get(), error);
    if (error) return schema::failf(schema::ErrorCode::io, "cannot accept connections: {}", error.message());
    (void)listener.release();
    return {};
  }

  void start() override {
    timer_.emplace(io_->get_executor());
    asio::co_spawn(io_->get_executor(), accept_all(), LogBug{"accepting connections"});
    asio::co_spawn(io_->get_executor(), tick_forever(), LogBug{"the timer"});
    thread_ = std::thread([this] {
      core_.page.worker_starts(number_);
      io_->run();
    });
  }

  void drain(bool close_idle) override {
    asio::post(*io_, [this, close_idle] {
      boost::system::error_code ignored;
      acceptor_->close(ignored);
      if (!close_idle) return;
      const std::vector<Session*> sessions(context_.sessions.begin(), context_.sessions.end());
      for (auto* session : sessions) session->close_if_idle();
    });
  }

 private:
  Task<void> accept_all() {
    for (;;) {
      TcpSocket socket(io_->get_executor());
      auto [failure] = co_await acceptor_->async_accept(socket, kAwait);
      if (!acceptor_->is_open()) co_return;
      if (failure == asio::error::connection_aborted) continue;
      if (failure) {
        // Out of descriptors or memory: evict an idle connection, then accept the next one.
        const bool room = core_.connections.evict_one();
        if (!room) spdlog::warn("router: cannot accept a connection: {}", failure.message());
        Timer pause(io_->get_executor(), room ? kAfterEviction : kAcceptPause);
        auto [cut] = co_await pause.async_wait(kAwait);
        if (cut) co_return;
        continue;
      }
      admit(std::move(socket));
    }
  }

  void admit(TcpSocket socket) {
    boost::system::error_code gone;
    const auto peer = socket.remote_endpoint(gone);
    if (gone) return;
    auto place = core_.connections.admit(limits::Source::of(peer.address().to_string()));
    if (!place) return refuse_connection(socket);
    auto session = std::make_shared<Session>(context_, std::move(socket), std::move(place));
    asio::co_spawn(io_->get_executor(), drive(std::move(session)), LogBug{"a connection"});
  }

  Task<void> tick_forever() {
    for (int ticks = 1;; ++ticks) {
      timer_->expires_after(Deadlines::kTick);
      auto [cut] = co_await timer_->async_wait(kAwait);
      if (cut) co_return;
      const auto now = std::chrono::steady_clock::now();
      core_.page.beat(number_);
      context_.deadlines.tick(now);
      follow_breakers();
      if (number_ == 0) {
        core_.tick(now);
        prober_.tick(now);
      }
      if (ticks % kTicksPerPrune == 0) context_.pool.prune(now);
    }
  }

  /// Once any thread saw a breaker open, requests that wait for that engine go elsewhere with the next tick.
  void follow_breakers() {
    const auto openings = core_.engines.openings();
    if (openings == std::exchange(openings_seen_, openings)) return;
    for (auto* session : context_.sessions) session->follow_breaker();
  }

  RouterCore& core_;
  const std::size_t number_;
  std::unique_ptr<asio::io_context> io_;
  WorkerContext context_;
  Prober prober_;  ///< used by the first worker
  std::uint64_t openings_seen_ = 0;
  std::optional<TcpAcceptor> acceptor_;
  std::optional<Timer> timer_;
  std::thread thread_;
};

}  // namespace

void LogBug::operator()(const std::exception_ptr& failure) const {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    spdlog::error("router: {} ended with an exception, which is a bug: {}", what, error.what());
  }
}

std::unique_ptr<Worker> Worker::make(RouterCore& core, std::uint64_t random_seed, std::size_t number) {
  return std::make_unique<LoopWorker>(core, random_seed, number);
}

}  // namespace driftgate::route
