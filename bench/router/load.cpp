#include "bench/router/load.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <memory>
#include <random>
#include <string_view>

#include "bench/router/sockets.hpp"
#include "bench/router/usage.hpp"

namespace driftgate::bench {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr double kSecond_ns = 1e9;
constexpr std::uint64_t kStopWait_ns = 10'000'000'000;  ///< for answers that are on their way at the end
constexpr std::size_t kMaxErrors = 100;
constexpr std::size_t kMaxWaiting = 100'000;  ///< requests that no connection was free for
constexpr std::uint64_t kSeed = 20;           ///< of the arrivals: the same for each proxy

std::uint64_t after(std::uint64_t begin_ns, double seconds) {
  return begin_ns + static_cast<std::uint64_t>(seconds * kSecond_ns);
}

/// 0 for no values.
double quantile_us(std::vector<std::uint64_t>& values_ns, double share) {
  if (values_ns.empty()) return 0;
  const auto at =
      std::min(values_ns.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values_ns.size())));
  std::ranges::nth_element(values_ns, values_ns.begin() + static_cast<std::ptrdiff_t>(at));
  return 1e-3 * static_cast<double>(values_ns[at]);
}

class Load {
 public:
  explicit Load(const LoadOptions& options)
      : options_(options),
        request_(options.shape),
        connections_(options.connections),
        arrivals_(kSeed),
        gap_s_(options.rate > 0 ? options.rate : 1) {}

  std::string run() {
    for (std::size_t i = 0; i < connections_.size(); ++i) open(i);
    const auto begin = now_ns();
    next_arrival_ns_ = begin;
    for (std::size_t i = 0; i < connections_.size(); ++i) free(i);
    go_on_until(after(begin, options_.warm_up_s));
    const auto before = usage_of(options_.pids);
    const auto from = now_ns();
    measuring_ = true;
    go_on_until(after(from, options_.seconds));
    measuring_ = false;
    const auto used = usage_of(options_.pids);
    const auto to = now_ns();
    stopping_ = true;
    const auto last = to + kStopWait_ns;
    while (busy_ > 0 && now_ns() < last) step(last);
    if (busy_ > 0) fail(fmt::format("{} requests have had no answer for 10 s", busy_));
    return result(before, used, 1e-9 * static_cast<double>(to - from));
  }

 private:
  struct Connection {
    base::UniqueFd fd;
    AnswerReader reader;
    std::uint64_t began_ns = 0;
    bool busy = false;
    std::string unsent;
  };

  void open(std::size_t index) {
    auto& connection = connections_[index];
    connection.fd = connect_to(options_.port);
    do_not_block(connection.fd.get());
    poller_.add(connection.fd.get(), index);
  }

  /// The connection has nothing to do: it asks again, or waits for an arrival.
  void free(std::size_t index) {
    if (stopping_) return;
    if (options_.rate <= 0) return ask(index, now_ns());
    if (waiting_ns_.empty()) return free_.push_back(index);
    const auto arrived = waiting_ns_.front();
    waiting_ns_.pop_front();
    ask(index, arrived);
  }

  void ask(std::size_t index, std::uint64_t began_ns) {
    auto& connection = connections_[index];
    connection.began_ns = began_ns;
    connection.busy = true;
    ++busy_;
    connection.reader.begin();
    auto bytes = request_.next();
    const auto sent = ::send(connection.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return broken(index, "a request cannot be sent");
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (bytes.empty()) return;
    connection.unsent = bytes;
    poller_.watch_writing(connection.fd.get(), index, true);
  }

  /// What is due in the open loop. A request begins when it arrives, whether a connection is free or not.
  void arrive(std::uint64_t now) {
    if (options_.rate <= 0 || stopping_) return;
    while (next_arrival_ns_ <= now) {
      const auto arrived = next_arrival_ns_;
      next_arrival_ns_ = after(arrived, gap_s_(arrivals_));
      if (free_.empty()) {
        waiting_ns_.push_back(arrived);
        if (waiting_ns_.size() > kMaxWaiting) fail("requests arrive faster than they are answered");
        continue;
      }
      const auto index = free_.back();
      free_.pop_back();
      ask(index, arrived);
    }
  }

  void go_on_until(std::uint64_t end) {
    while (now_ns() < end) step(end);
  }

  void step(std::uint64_t end) {
    const bool open_loop = options_.rate > 0 && !stopping_;
    for (const auto& event : poller_.wait(open_loop ? std::min(end, next_arrival_ns_) : end)) {
      const auto index = static_cast<std::size_t>(event.data.u64);
      if ((event.events & EPOLLOUT) != 0) send_rest(index);
      if ((event.events & ~EPOLLOUT) != 0) receive(index);
    }
    arrive(now_ns());
  }

  void send_rest(std::size_t index) {
    auto& connection = connections_[index];
    const auto sent =
        ::send(connection.fd.get(), connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return broken(index, "a request cannot be sent");
    if (sent > 0) connection.unsent.erase(0, static_cast<std::size_t>(sent));
    if (connection.unsent.empty()) poller_.watch_writing(connection.fd.get(), index, false);
  }

  void receive(std::size_t index) {
    auto& connection = connections_[index];
    const auto got = ::recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return broken(index, "the connection was closed");
    if (!connection.busy) return broken(index, "bytes came without a request");
    const auto now = now_ns();
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
    const auto state = connection.reader.feed(bytes, now, measuring_ ? &delays_ns_ : nullptr);
    if (state == AnswerReader::State::more) return;
    if (state == AnswerReader::State::broken || !as_expected(connection.reader))
      return broken(index, "an answer is not as it must be");
    connection.busy = false;
    --busy_;
    if (measuring_) latencies_ns_.push_back(now - connection.began_ns);
    free(index);
  }

  [[nodiscard]] bool as_expected(const AnswerReader& reader) const {
    if (options_.shape == Shape::stream)
      return reader.streamed_to_end() && reader.events() == options_.events;
    return reader.body_bytes() == kAnswerBytes;
  }

  void broken(std::size_t index, std::string_view why) {
    auto& connection = connections_[index];
    if (errors_++ == 0) first_error_ = fmt::format("{}; its head:\n{}", why, connection.reader.head());
    if (errors_ > kMaxErrors) fail(fmt::format("more than {} errors, first: {}", kMaxErrors, first_error_));
    const bool was_busy = connection.busy;
    busy_ -= was_busy ? 1u : 0u;
    connection.busy = false;
    connection.unsent.clear();
    open(index);
    if (was_busy) free(index);
  }

  std::string result(const Usage& before, const Usage& used, double seconds) {
    if (errors_ > 0) fmt::print(stderr, "router_bench: {} errors, first: {}\n", errors_, first_error_);
    const auto requests = latencies_ns_.size();
    return fmt::format(
        R"({{"requests":{},"events":{},"seconds":{:.6f},"per_second":{:.1f},"p50_us":{:.2f},"p99_us":{:.2f},)"
        R"("event_p50_us":{:.2f},"event_p99_us":{:.2f},"cpu_ns":{},"user_ticks":{},"system_ticks":{},"errors":{}}})",
        requests, delays_ns_.size(), seconds, static_cast<double>(requests) / seconds,
        quantile_us(latencies_ns_, 0.5), quantile_us(latencies_ns_, 0.99), quantile_us(delays_ns_, 0.5),
        quantile_us(delays_ns_, 0.99), used.cpu_ns - before.cpu_ns, used.user_ticks - before.user_ticks,
        used.system_ticks - before.system_ticks, errors_);
  }

  const LoadOptions options_;
  RequestText request_;
  Poller poller_;
  std::array<char, kReadBytes> buffer_{};
  std::vector<Connection> connections_;
  std::size_t busy_ = 0;
  bool measuring_ = false;
  bool stopping_ = false;
  std::mt19937_64 arrivals_;
  std::exponential_distribution<double> gap_s_;
  std::uint64_t next_arrival_ns_ = 0;
  std::vector<std::size_t> free_;         ///< connections, in the open loop
  std::deque<std::uint64_t> waiting_ns_;  ///< arrivals that no connection was free for
  std::vector<std::uint64_t> latencies_ns_;
  std::vector<std::uint64_t> delays_ns_;  ///< of events
  std::size_t errors_ = 0;
  std::string first_error_;
};

}  // namespace

std::string run_load(const LoadOptions& options) {
  return std::make_unique<Load>(options)->run();
}

}  // namespace driftgate::bench
