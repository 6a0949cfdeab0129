#include "daemon/route/relay/upstream.hpp"

#include <sys/socket.h>

#include <boost/asio/write.hpp>
#include <cerrno>

#include "daemon/limits/body_room.hpp"
#include "daemon/route/relay/engine_pass.hpp"

namespace driftgate::route {
namespace {

constexpr int kMaxInterimAnswers = 4;
constexpr std::chrono::milliseconds kKeepAliveRace{100};  ///< an engine's close that crossed the request

/// An idle connection has nothing to read: bytes or an end mean that it cannot be used again.
bool still_open(TcpSocket& socket) {
  char byte = 0;
  const auto got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

Task<bool> UpstreamConnection::send_rest(Pieces pieces) {
  if (tls) {
    const bool taken = co_await tls->send_rest(pieces);
    co_return taken;
  }
  const auto buffers = buffers_of(pieces);
  auto [failure, sent] = co_await asio::async_write(socket, buffers, kAwait);
  co_return !failure;
}

Arrival UpstreamConnection::receive() {
  if (tls) return tls->receive(received);
  const Received got = receive_now(socket);
  append(received, got.bytes);
  return got.arrival;
}

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

void UpstreamPool::give_back(std::unique_ptr<UpstreamConnection> connection, Deadlines::Time now) {
  if (idle_.size() >= kMaxEngines && !idle_.contains(connection->authority)) return;
  auto& connections = idle_[connection->authority];
  if (connections.size() >= kMaxIdlePerEngine) return;
  connection->idle_since = now;
  route::give_back(std::move(connection->received));
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
      deadlines_(deadlines),
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
  std::string why;
  if (engine_.pass && !engine_.pass->state()->usable) {
    tell("credentials");
    co_return "credentials";
  }
  for (bool fresh = false;; fresh = true) {
    if (fresh || !take_kept()) {
      why = co_await open();
      if (!why.empty()) break;
    }
    const auto asked = Deadlines::Time::clock::now();
    Pieces request{head, body};
    const Sent sent = connection_->send(request);
    bool taken = sent == Sent::all;
    if (sent == Sent::part) {
      taken = co_await connection_->send_rest(request);
    }
    if (!taken) why = reason_or("no_answer");
    HeadSearch search;
    while (why.empty() && !find_head(search, why)) {
      auto [failure] = co_await connection_->socket.async_wait(TcpSocket::wait_read, kAwait);
      if (!receive(failure).empty()) why = reason_or(answered_ ? "truncated_answer" : "no_answer");
    }
    // Only a close that crossed the request on a kept connection is asked anew: an engine that dies later
    // has failed, and that must be seen.
    if (why.empty()) break;
    const bool raced = Deadlines::Time::clock::now() - asked < kKeepAliveRace;
    const bool stale = connection_->reused && !answered_ && cut_why_.empty() && !aborted_ && raced;
    if (!stale) break;
  }
  if (why.empty()) {
    begin_body();
  } else {
    tell(why);
  }
  co_return why;
}

/// A connection that was kept; false when there is none.
bool Exchange::take_kept() {
  connection_ = pool_.take(engine_.authority);
  if (connection_ && !fits(*connection_)) connection_.reset();
  if (connection_) limit_to(limits_.total, "timeout");
  return connection_ != nullptr;
}

Task<std::string> Exchange::open() {
  connection_ = std::make_unique<UpstreamConnection>(pool_.io());
  connection_->authority = engine_.authority;
  limit_to(std::min(limits_.total, Deadlines::Time::clock::now() + pool_.connect_time()), "connect");
  std::string why = co_await connect();
  if (why.empty() && engine_.tls) {
    why = co_await secure();
  }
  // Not reaching the engine is a connect error, whichever clock noticed it.
  if (cut_why_ == "breaker_open" || cut_why_ == "first_byte") co_return std::string(cut_why_);
  if (why == "tls" && cut_why_.empty() && !aborted_) co_return why;
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

/// Puts the new connection under TLS.
Task<std::string> Exchange::secure() {
  boost::system::error_code ignored;
  connection_->socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  connection_->tls = std::make_unique<UpstreamTls>(connection_->socket, engine_.pass->state()->trust);
  const std::string fault = co_await connection_->tls->open(engine_.host);
  const bool given_up = !cut_why_.empty() || aborted_;
  if (!given_up) engine_.pass->note_handshake(fault);
  co_return fault.empty() ? "" : "tls";
}

/// An engine over http and one over https may have the same address, and whom it trusts may have changed.
bool Exchange::fits(const UpstreamConnection& connection) const {
  if (!engine_.tls) return connection.tls == nullptr;
  return connection.tls != nullptr && connection.tls->trust() == engine_.pass->state()->trust;
}

/// Takes what has come once the socket can be read, or `failure` says that it never will. A reason when
/// nothing more will come; "end" for the engine's own end.
std::string Exchange::receive(const boost::system::error_code& failure) {
  const auto arrival = failure ? Arrival::failure : connection_->receive();
  if (arrival == Arrival::bytes) answered_ = true;
  if (arrival == Arrival::bytes || arrival == Arrival::nothing) return {};
  if (arrival == Arrival::end && cut_why_.empty() && !aborted_) return "end";
  return reason_or("truncated_answer");
}

/// True when the head is here, or `why` says that there will be none.
bool Exchange::find_head(HeadSearch& search, std::string& why) {
  auto& received = connection_->received;
  for (;;) {
    std::size_t end = 0;
    const auto scan = scan_head(received, search.scanned, end);
    if (scan == HeadScan::bad || (scan == HeadScan::incomplete && received.size() > kMaxResponseHeadBytes)) {
      why = "bad_head";
      return true;
    }
    search.scanned = scan == HeadScan::incomplete ? received.size() : 0;
    if (scan == HeadScan::incomplete) return false;
    head_bytes_ = received.substr(0, end);
    received.erase(0, end);
    auto parsed = parse_response_head(head_bytes_);
    if (parsed) head_ = std::move(*parsed);
    const bool more = parsed && head_.status < 200;  // an interim answer
    if (!parsed || (more && (++search.interim > kMaxInterimAnswers || head_.status == 101))) why = "bad_head";
    if (!more || !why.empty()) return true;
  }
}

void Exchange::begin_body() {
  if (head_.chunked) chunks_.emplace();
  left_ = head_.may_have_body() ? head_.content_length.value_or(0) : 0;
  until_close_ = head_.may_have_body() && !head_.chunked && !head_.content_length;
  if (!head_.may_have_body()) chunks_.reset();
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

bool Exchange::next_now(Part& part) {
  if (!ended_ && !take_body(part)) return false;
  hand_out(part);
  return true;
}

void Exchange::hand_out(Part& part) {
  if (passing_) watch_.clear();
  if (!part.reason.empty()) tell(part.reason);
  if (part.end && !ended_) finish();
}

Task<Exchange::Part> Exchange::next() {
  Part part;
  bool found = next_now(part);
  // A client that takes its time to read must not count against the engine: the clock runs while it is waited
  // for.
  if (!found && passing_) limit_to(Deadlines::Time::clock::now() + limits_.between, "stalled");
  while (!found) {
    auto [failure] = co_await connection_->socket.async_wait(TcpSocket::wait_read, kAwait);
    const std::string why = receive(failure);
    found = why.empty() && next_now(part);
    if (why.empty()) continue;
    part.end = why == "end" && until_close_;
    if (!part.end) part.reason = why == "end" ? std::string("truncated_answer") : why;
    hand_out(part);
    found = true;
  }
  co_return part;
}

void Exchange::finish() {
  ended_ = true;
  watch_.clear();
  const bool reusable =
      head_.keep_alive && !until_close_ && connection_->received.empty() && cut_why_.empty() && !aborted_;
  if (reusable) pool_.give_back(std::move(connection_), deadlines_.coarse_now());
}

}  // namespace driftgate::route
