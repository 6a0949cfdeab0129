#include "daemon/route/relay/upstream.hpp"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

#include "daemon/limits/body_room.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kReadBytes = 16u << 10;
constexpr int kMaxInterimAnswers = 4;
constexpr std::chrono::milliseconds kKeepAliveRace{100};  ///< an engine's close that crossed the request

/// An idle connection has nothing to read: bytes or an end mean that it cannot be used again.
bool still_open(TcpSocket& socket) {
  char byte = 0;
  const auto got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

std::unique_ptr<UpstreamConnection> UpstreamPool::take(const std::string& authority) {
  const auto found = idle_.find(authority);
  if (found == idle_.end()) return nullptr;
  auto& connections = found->second;
  while (!connections.empty()) {
    auto connection = std::move(connections.back());
    connections.pop_back();
    if (still_open(connection->socket)) {
      connection->reused = true;
      return connection;
    }
  }
  return nullptr;
}

void UpstreamPool::give_back(std::unique_ptr<UpstreamConnection> connection) {
  if (idle_.size() >= kMaxEngines && !idle_.contains(connection->authority)) return;
  auto& connections = idle_[connection->authority];
  if (connections.size() >= kMaxIdlePerEngine) return;
  connection->idle_since = Deadlines::Time::clock::now();
  connections.push_back(std::move(connection));
}

void UpstreamPool::prune(Deadlines::Time now) {
  for (auto entry = idle_.begin(); entry != idle_.end();) {
    std::erase_if(entry->second,
                  [&](const auto& connection) { return now - connection->idle_since > kMaxIdle; });
    entry = entry->second.empty() ? idle_.erase(entry) : std::next(entry);
  }
}

Exchange::Exchange(UpstreamPool& pool, Deadlines& deadlines, const Endpoint& engine,
                   const ExchangeLimits& limits, FirstByteWait* wait)
    : pool_(pool),
      engine_(engine),
      limits_(limits),
      wait_(wait),
      watch_(deadlines, [this] { alarm(); }),
      end_(limits.total) {}

void Exchange::abort() {
  aborted_ = true;
  cut({});
}

void Exchange::follow_breaker() {
  if (wait_ != nullptr && wait_->overtaken()) cut("breaker_open");
}

void Exchange::cut(std::string_view why) {
  if (cut_why_.empty()) cut_why_ = why;
  watch_.clear();
  if (!connection_) return;
  boost::system::error_code ignored;
  connection_->socket.close(ignored);
}

void Exchange::limit_to(Deadlines::Time end, std::string_view why) {
  end_ = end;
  end_why_ = why;
  set_alarm();
}

void Exchange::set_alarm() {
  watch_.set(wait_ != nullptr ? std::min(end_, wait_->until()) : end_);
}

void Exchange::alarm() {
  const auto now = Deadlines::Time::clock::now();
  if (now >= end_) return cut(end_why_);
  if (wait_ != nullptr && wait_->late(now)) return cut("first_byte");
  set_alarm();
}

void Exchange::pass_on() {
  if (passing_) return;
  passing_ = true;
  watch_.clear();
  if (wait_ != nullptr) wait_->came(head_.status, Deadlines::Time::clock::now());
}

/// A request that was given up for a reason of its client's, or of another engine's, says nothing here.
void Exchange::tell(std::string_view why) {
  const bool given_up = aborted_ || cut_why_ == "breaker_open";
  if (wait_ != nullptr && !given_up) wait_->failed(why, Deadlines::Time::clock::now());
}

std::string Exchange::reason_or(std::string_view reason) const {
  return std::string(cut_why_.empty() ? reason : cut_why_);
}

Task<std::string> Exchange::start(std::string_view head, std::string_view body) {
  std::string why = co_await try_twice(head, body);
  if (!why.empty()) tell(why);
  co_return why;
}

Task<std::string> Exchange::try_twice(std::string_view head, std::string_view body) {
  for (int round = 0; round < 2; ++round) {
    std::string why = co_await open(round > 0);
    if (!why.empty()) co_return why;
    const auto asked = Deadlines::Time::clock::now();
    Pieces request{head, body};
    const Sent sent = send_now(connection_->socket, request);
    if (sent == Sent::failed) why = reason_or("no_answer");
    if (sent == Sent::part) {
      why = co_await send_rest(request);
    }
    if (why.empty()) {
      why = co_await read_head();
    }
    // Only a close that crossed the request on a kept connection is asked anew: an engine that dies later
    // has failed, and that must be seen.
    const bool raced = Deadlines::Time::clock::now() - asked < kKeepAliveRace;
    const bool stale = connection_->reused && !answered_ && cut_why_.empty() && !aborted_ && raced;
    if (why.empty() || !stale) co_return why;
  }
  co_return "no_answer";
}

Task<std::string> Exchange::open(bool fresh) {
  connection_.reset();
  if (!fresh) connection_ = pool_.take(engine_.authority);
  if (connection_) {
    limit_to(limits_.total, "timeout");
    co_return std::string();
  }
  connection_ = std::make_unique<UpstreamConnection>(pool_.io());
  connection_->authority = engine_.authority;
  limit_to(std::min(limits_.total, Deadlines::Time::clock::now() + pool_.connect_time()), "connect");
  std::string why = co_await connect();
  // Not reaching the engine is a connect error, whichever clock noticed it.
  if (cut_why_ == "breaker_open" || cut_why_ == "first_byte") co_return std::string(cut_why_);
  if (!why.empty() || !cut_why_.empty() || aborted_) co_return "connect";
  limit_to(limits_.total, "timeout");
  boost::system::error_code ignored;
  connection_->socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  co_return std::string();
}

Task<std::string> Exchange::connect() {
  boost::system::error_code not_an_address;
  const auto address = asio::ip::make_address(engine_.host, not_an_address);
  std::vector<asio::ip::tcp::endpoint> targets;
  if (not_an_address) {
    TcpResolver resolver(pool_.io().get_executor());
    auto [failure, found] =
        co_await resolver.async_resolve(engine_.host, std::to_string(engine_.port), kAwait);
    if (failure) co_return "connect";
    for (const auto& entry : found) targets.push_back(entry.endpoint());
  } else {
    targets.emplace_back(address, engine_.port);
  }
  for (const auto& target : targets) {
    if (!cut_why_.empty() || aborted_) break;
    boost::system::error_code ignored;
    connection_->socket.close(ignored);
    auto [failure] = co_await connection_->socket.async_connect(target, kAwait);
    if (!failure) co_return std::string();
  }
  co_return "connect";
}

/// What an engine did not take at once.
Task<std::string> Exchange::send_rest(Pieces pieces) {
  const auto buffers = buffers_of(pieces);
  auto [failure, sent] = co_await asio::async_write(connection_->socket, buffers, kAwait);
  if (failure) co_return reason_or("no_answer");
  co_return std::string();
}

Task<std::string> Exchange::read_more() {
  auto& received = connection_->received;
  const auto before = received.size();
  received.resize(before + kReadBytes);
  auto [failure, got] = co_await connection_->socket.async_read_some(
      asio::buffer(received.data() + before, kReadBytes), kAwait);
  received.resize(before + got);
  if (got > 0) answered_ = true;
  if (!failure) co_return std::string();
  if (failure == asio::error::eof && cut_why_.empty() && !aborted_) co_return "end";
  co_return reason_or("truncated_answer");
}

Task<std::string> Exchange::read_head() {
  int interim = 0;
  std::size_t scanned = 0;
  for (;;) {
    auto& received = connection_->received;
    std::size_t end = 0;
    const auto scan = scan_head(received, scanned, end);
    if (scan == HeadScan::bad || (scan == HeadScan::incomplete && received.size() > kMaxResponseHeadBytes)) {
      co_return "bad_head";
    }
    if (scan == HeadScan::incomplete) {
      scanned = received.size();
      std::string why = co_await read_more();
      if (why.empty()) continue;
      co_return reason_or(answered_ ? "truncated_answer" : "no_answer");
    }
    head_bytes_ = received.substr(0, end);
    received.erase(0, end);
    auto parsed = parse_response_head(head_bytes_);
    if (!parsed) co_return "bad_head";
    head_ = std::move(*parsed);
    if (head_.status >= 200) break;
    scanned = 0;
    if (++interim > kMaxInterimAnswers || head_.status == 101) co_return "bad_head";
  }
  if (head_.chunked) chunks_.emplace();
  left_ = head_.may_have_body() ? head_.content_length.value_or(0) : 0;
  until_close_ = head_.may_have_body() && !head_.chunked && !head_.content_length;
  if (!head_.may_have_body()) chunks_.reset();
  co_return std::string();
}

/// Moves what has been received into `part`; true when there is something to hand out.
bool Exchange::take_body(Part& part) {
  auto& received = connection_->received;
  if (chunks_) {
    received.erase(0, chunks_->feed(received, part.data));
    part.end = chunks_->done();
    if (chunks_->failed()) part.reason = "truncated_answer";
  } else if (until_close_) {
    part.data = std::exchange(received, {});
  } else {
    part.data = limits::take_front(received, left_);
    left_ -= part.data.size();
    part.end = left_ == 0;
  }
  return part.end || !part.data.empty() || !part.reason.empty();
}

Task<Exchange::Part> Exchange::next() {
  Part part;
  // A client that takes its time to read must not count against the engine: the clock runs while it is read
  // from.
  if (passing_ && !ended_) limit_to(Deadlines::Time::clock::now() + limits_.between, "stalled");
  for (;;) {
    if (ended_ || take_body(part)) break;
    std::string why = co_await read_more();
    if (why.empty()) continue;
    part.end = why == "end" && until_close_;
    if (!part.end) part.reason = why == "end" ? std::string("truncated_answer") : why;
    break;
  }
  if (passing_) watch_.clear();
  if (!part.reason.empty()) tell(part.reason);
  if (part.end && !ended_) finish();
  co_return part;
}

void Exchange::finish() {
  ended_ = true;
  watch_.clear();
  const bool reusable =
      head_.keep_alive && !until_close_ && connection_->received.empty() && cut_why_.empty() && !aborted_;
  if (reusable) pool_.give_back(std::move(connection_));
}

}  // namespace driftgate::route
