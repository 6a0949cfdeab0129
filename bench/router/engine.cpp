#include "bench/router/engine.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "bench/router/sockets.hpp"
#include "bench/router/wire.hpp"

namespace driftgate::bench {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kMaxRequestBytes = 1u << 20;
constexpr std::size_t kMaxUnsentBytes = 1u << 20;
constexpr std::uint64_t kIdleWait_ns = 1'000'000'000;
constexpr std::string_view kAlive =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";  // what a probe gets

/// The bytes of the first request in `bytes`, 0 while it is not whole; `body` is its body.
std::size_t first_request(std::string_view bytes, std::string_view& body) {
  const auto end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return 0;
  const auto head = bytes.substr(0, end + 2);
  const auto length_text = header_value(head, "content-length");
  std::size_t length = 0;
  std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
  if (bytes.size() - end - 4 < length) return 0;
  body = bytes.substr(end + 4, length);
  return end + 4 + length;
}

class EngineLoop {
 public:
  EngineLoop(const EngineOptions& options, base::UniqueFd listener)
      : options_(options), listener_(std::move(listener)) {
    poller_.add(listener_.get(), static_cast<std::uint64_t>(listener_.get()));
  }

  [[noreturn]] void run() {
    for (;;) {
      const auto until = due_.empty() ? now_ns() + kIdleWait_ns : due_.front().at_ns;
      for (const auto& event : poller_.wait(until)) ready(static_cast<int>(event.data.u64), event.events);
      send_due_events();
    }
  }

 private:
  struct Connection {
    base::UniqueFd fd;
    std::uint64_t number = 0;  ///< descriptors are used again, numbers are not
    std::string received;
    std::string unsent;
    bool streaming = false;
  };
  /// The next event of a stream. All streams have the same gap, so that the queue is in order of time.
  struct DueEvent {
    std::uint64_t at_ns = 0;
    int fd = -1;
    std::uint64_t number = 0;
    std::uint32_t left = 0;
  };

  void ready(int fd, std::uint32_t events) {
    if (fd == listener_.get()) return accept_all();
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    const bool open = ((events & EPOLLOUT) == 0 || send_rest(found->second)) &&
                      ((events & ~EPOLLOUT) == 0 || receive(found->second));
    if (!open) connections_.erase(found);
  }

  void accept_all() {
    for (;;) {
      base::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) return;
      const int yes = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      const int key = fd.get();
      poller_.add(key, static_cast<std::uint64_t>(key));
      connections_.insert_or_assign(key, Connection{std::move(fd), ++accepted_, {}, {}, false});
    }
  }

  /// False when the connection is over.
  bool receive(Connection& connection) {
    const auto got = ::recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
    if (connection.received.empty()) {  // the usual request is one packet, and is not copied
      const auto used = answer_requests(connection, bytes);
      connection.received = bytes.substr(used);
    } else {
      connection.received.append(bytes);
      connection.received.erase(0, answer_requests(connection, connection.received));
    }
    return connection.received.size() <= kMaxRequestBytes && connection.unsent.size() <= kMaxUnsentBytes;
  }

  /// Answers what is whole; the bytes that were used.
  std::size_t answer_requests(Connection& connection, std::string_view bytes) {
    std::size_t used = 0;
    while (!connection.streaming) {
      std::string_view body;
      const auto size = first_request(bytes.substr(used), body);
      if (size == 0) break;
      used += size;
      if (body.empty()) {
        send(connection, kAlive);
      } else if (asks_for_stream(body)) {
        begin_stream(connection);
      } else {
        send(connection, answer_);
      }
    }
    return used;
  }

  void begin_stream(Connection& connection) {
    connection.streaming = true;
    const auto now = now_ns();
    send(connection, stream_head_ + std::string(event_.at(now)));
    plan({now, connection.fd.get(), connection.number, options_.events - 1});
  }

  void plan(DueEvent event) {
    event.at_ns += std::uint64_t{options_.gap_us} * 1'000;
    due_.push_back(event);
  }

  void send_due_events() {
    while (!due_.empty() && due_.front().at_ns <= now_ns()) {
      auto due = due_.front();
      due_.pop_front();
      const auto found = connections_.find(due.fd);
      if (found == connections_.end() || found->second.number != due.number) continue;
      auto& connection = found->second;
      if (due.left == 0) {
        connection.streaming = false;
        send(connection, stream_end_);
        connection.received.erase(0, answer_requests(connection, connection.received));
      } else {
        send(connection, event_.at(now_ns()));
        --due.left;
        plan(due);
      }
    }
  }

  void send(Connection& connection, std::string_view bytes) {
    if (connection.unsent.empty()) {
      const auto sent = ::send(connection.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (bytes.empty()) return;
      // A connection that is broken is noticed when it is read.
      poller_.watch_writing(connection.fd.get(), static_cast<std::uint64_t>(connection.fd.get()), true);
    }
    connection.unsent.append(bytes);
  }

  bool send_rest(Connection& connection) {
    const auto sent =
        ::send(connection.fd.get(), connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.unsent.erase(0, static_cast<std::size_t>(sent));
    if (connection.unsent.empty())
      poller_.watch_writing(connection.fd.get(), static_cast<std::uint64_t>(connection.fd.get()), false);
    return true;
  }

  const EngineOptions options_;
  const base::UniqueFd listener_;
  Poller poller_;
  std::array<char, kReadBytes> buffer_{};
  std::unordered_map<int, Connection> connections_;
  std::uint64_t accepted_ = 0;
  std::deque<DueEvent> due_;
  const std::string answer_ = plain_answer();
  const std::string stream_head_ = stream_head();
  const std::string stream_end_ = stream_end();
  EventText event_;
};

}  // namespace

void run_engine(const EngineOptions& options) {
  auto first = listen_on(0);
  const auto port = port_of(first.get());
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    auto listener = i == 0 ? std::move(first) : listen_on(port);
    std::thread([loop = std::make_unique<EngineLoop>(options, std::move(listener))] {
      loop->run();
    }).detach();
  }
  fmt::print("{}\n", port);
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  std::_Exit(0);  // the threads hold nothing that must be given back
}

}  // namespace driftgate::bench
