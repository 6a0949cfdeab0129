#include "daemon/net/session.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "daemon/limits/body_room.hpp"

namespace driftgate::net {
namespace {

using Clock = std::chrono::steady_clock;
using limits::Use;

constexpr std::size_t kReadBytes = 16 * 1024;
constexpr std::size_t kLingerBytes = 2 * 1024 * 1024;
constexpr std::chrono::milliseconds kLingerTime{1'000};
constexpr std::chrono::milliseconds kPoolRetry{100};
constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kHeartbeat = ": heartbeat\n\n";  ///< a comment: clients skip it

enum class HeadState { incomplete, complete, broken };

/// Whether `bytes` holds a head; `size` is its length. Broken: it can no longer become a valid one.
HeadState find_head(const std::string& bytes, std::size_t& size) {
  if (!bytes.empty() && (bytes.front() < 'A' || bytes.front() > 'Z')) return HeadState::broken;
  const std::size_t end = bytes.find("\r\n\r\n");
  size = end == std::string::npos ? bytes.size() : end + 4;
  for (std::size_t at = bytes.find('\n'); at < size; at = bytes.find('\n', at + 1))
    if (at == 0 || bytes[at - 1] != '\r') return HeadState::broken;
  return end == std::string::npos ? HeadState::incomplete : HeadState::complete;
}

Response out_of_memory() {
  return plain_problem(503, "unavailable",
                       "The memory for request bodies is used up. Try again in a second.");
}

Response too_large(int status, std::string_view what, std::size_t limit) {
  return plain_problem(status, "limit_exceeded",
                       fmt::format("The request's {} is larger than {} bytes.", what, limit));
}

Response busy(Lane lane) {
  if (lane != Lane::long_running)
    return plain_problem(503, "unavailable", "The daemon is busy: its queue is full. Try again in a second.");
  return plain_problem(
      503, "unavailable",
      "Others have asked for long work, such as bundles and what-ifs, and no more of it is taken "
      "now. Try again in a second.");
}

/// The answer to HEAD is that to GET without its body (RFC 9110, section 9.3.2).
bool has_body(const RequestHead& head) {
  return head.method != "HEAD";
}

std::optional<Response> guarded(const ServerState& state, const Session::Work& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    state.log(fmt::format("a request handler threw: {}", e.what()));
    return plain_problem(500, "internal", "Internal error; see the daemon's log. Please report this.");
  }
}

}  // namespace

Session::Session(ServerState& state, std::unique_ptr<Stream> stream, std::string remote_address,
                 std::unique_ptr<limits::ConnectionTable::Place> place)
    : state_(state),
      stream_(std::move(stream)),
      remote_address_(std::move(remote_address)),
      place_(std::move(place)),
      finished_(stream_->socket().get_executor()),
      wake_(stream_->socket().get_executor()),
      deadline_(Clock::now() + state.options.idle_timeout) {}

void Session::enter(Phase phase, std::chrono::milliseconds limit) {
  phase_ = phase;
  entered_ = Clock::now();
  deadline_ = entered_ + limit;
  const bool busy = phase == Phase::working || phase == Phase::writing;
  place_->use(busy ? Use::active : phase == Phase::body ? Use::body : Use::waiting);
}

/// Work ends by itself: it has no deadline here.
void Session::enter_work() {
  phase_ = Phase::working;
  place_->use(Use::active);
}

/// The table of connections needs this one's place. A request that came meanwhile is answered first.
void Session::evict() {
  if (place_->in_use() == Use::active) return;
  if (phase_ == Phase::body) {
    stream_->write_now(format_whole(out_of_memory()));
  }
  close();
}

void Session::close() {
  long_work_.request_stop();
  boost::system::error_code ignored;
  stream_->socket().close(ignored);
  wake();
}

void Session::sweep(Clock::time_point now) {
  if (phase_ == Phase::working && long_work_.stop_possible() && peer_gone()) long_work_.request_stop();
  if (!stream_->socket().is_open() || phase_ == Phase::working) return;
  if (phase_ == Phase::writing && now - entered_ >= limits::kStalledAfter) place_->use(Use::stalled);
  if (now < deadline_) return;
  if (phase_ == Phase::head || phase_ == Phase::body) {
    stream_->write_now(format_whole(
        plain_problem(408, "request_timeout", "The request did not arrive within its time limit.")));
  }
  close();
}

void Session::wake() {
  woken_ = true;
  wake_.cancel();
}

void Session::stop() {
  long_work_.request_stop();
  if (phase_ == Phase::idle)
    close();
  else
    wake();
}

/// A client that has ended its side may be gone or may wait for its answer. It is asked by an interim answer,
/// which whoever waits passes over (RFC 9110, 15.2): a socket that was closed answers with a reset, seen by
/// the next look.
bool Session::peer_gone() {
  if (!stream_->socket().is_open()) return true;
  // Unread bytes may stand before the end: a TLS client says goodbye first.
  pollfd peer{stream_->socket().native_handle(), POLLRDHUP, 0};
  if (::poll(&peer, 1, 0) <= 0) return false;
  if ((peer.revents & (POLLHUP | POLLERR)) != 0 || !stream_->outlives_one_end()) return true;
  if (may_ask_) stream_->write_now(kInterim);
  may_ask_ = false;
  return false;
}

Awaitable<void> Session::run() {
  const Executor executor = stream_->socket().get_executor();
  place_->begin([executor, weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (const auto session = weak.lock()) session->evict();
    });
  });
  enter(Phase::idle, state_.options.head_timeout);
  bool again = co_await stream_->open();
  while (again) {
    again = co_await serve_one();
    if (state_.stopping || !stream_->socket().is_open()) break;
  }
  close();
}

/// The check before the body, where it comes before the answer's own work, and the body; a problem to answer
/// with.
Awaitable<std::optional<Response>> Session::admit(Request& request, Lane lane) {
  Handler& handler = state_.handler;
  Work check = [&handler, &request] { return handler.before_body(request); };
  const Lane of_check = lane == Lane::urgent ? lane : Lane::ordinary;
  std::optional<Response> refusal = co_await on_pool(std::move(check), of_check);
  if (!refusal && request.content_length > 0) {
    refusal = co_await read_body(request);
  }
  co_return refusal;
}

Awaitable<std::optional<Response>> Session::answer_request(Request& request, Lane lane, bool admitted) {
  Handler& handler = state_.handler;
  if (lane == Lane::long_running) {
    long_work_ = std::stop_source();
    if (state_.stopping) long_work_.request_stop();  // stop() came while the request was being admitted
    request.stop = long_work_.get_token();
    may_ask_ = request.minor_version > 0;  // HTTP/1.0 has no interim answers
  }
  Work work = [&handler, &request, admitted]() -> std::optional<Response> {
    if (request.stop.stop_requested())
      return plain_problem(503, "unavailable", "The daemon is stopping, or nobody waits for this answer.");
    auto refused = admitted ? std::nullopt : handler.before_body(request);
    return refused ? std::move(refused) : handler.handle(request);
  };
  std::optional<Response> response = co_await on_pool(std::move(work), lane);
  long_work_ = std::stop_source(std::nostopstate);
  co_return response;
}

Awaitable<bool> Session::serve_one() {
  Request request;
  std::optional<Response> refusal = co_await read_head(request);
  const bool whole = !refusal && stream_->socket().is_open();
  const Lane lane = whole ? state_.handler.lane_of(request) : Lane::ordinary;
  const bool ahead = whole && (request.content_length > 0 || lane == Lane::long_running);
  if (ahead) {
    refusal = co_await admit(request, lane);
  }
  if (!stream_->socket().is_open()) co_return false;
  if (refusal) {
    co_await refuse(std::move(*refusal), has_body(request));
    co_return false;
  }
  std::optional<Response> answer = co_await answer_request(request, lane, ahead);
  Response response = std::move(*answer);
  if (response.deferred) {
    auto deferred = response.deferred;
    response = co_await resolve(std::move(deferred));
  }
  if (response.feed && has_body(request)) {
    co_await stream(std::move(response));
    co_return false;
  }
  const bool keep = request.keep_alive && !response.close && !state_.stopping && !place_->evicted();
  std::string head = format_response_head(response, keep);
  if (!has_body(request)) response.body.clear();
  bool sent = false;
  if (response.source && has_body(request)) {
    auto source = response.source;
    sent = co_await send_chunks(std::move(head), std::move(source), lane);
  } else {
    sent = co_await send(std::move(head), std::move(response.body));
  }
  co_return sent&& keep;
}

/// Reads what has come; at the end of the stream, and after a failure, closes the connection and returns
/// false.
Awaitable<bool> Session::fill(std::size_t most) {
  std::array<char, kReadBytes> bytes;
  const auto size = co_await stream_->read_some(asio::buffer(bytes, most));
  if (size)
    buffer_.append(bytes.data(), *size);
  else
    close();
  co_return size.has_value();
}

/// Reads one head; a problem to answer with, or nothing when the head is read or the connection is closed.
Awaitable<std::optional<Response>> Session::read_head(RequestHead& head) {
  const auto& options = state_.options;
  if (buffer_.empty())
    enter(Phase::idle, options.idle_timeout);
  else
    enter(Phase::head, options.head_timeout);
  std::size_t size = 0;
  HeadState found = find_head(buffer_, size);
  while (found == HeadState::incomplete && buffer_.size() <= options.max_head_bytes) {
    const bool more = co_await fill(kReadBytes);
    if (!more) co_return std::nullopt;
    if (phase_ == Phase::idle) enter(Phase::head, options.head_timeout);
    found = find_head(buffer_, size);
  }
  if (found != HeadState::broken && size > options.max_head_bytes)
    co_return too_large(431, "head", options.max_head_bytes);
  auto parsed = parse_request_head(std::string_view(buffer_).substr(0, size));
  if (!parsed)
    co_return plain_problem(400, "bad_request", "Malformed request: " + parsed.error().message + ".");
  buffer_.erase(0, size);
  head = std::move(*parsed);
  head.remote_address = remote_address_;
  co_return std::nullopt;
}

/// The same for the body that the head announced.
Awaitable<std::optional<Response>> Session::read_body(Request& request) {
  const auto& options = state_.options;
  if (request.content_length > options.max_body_bytes)
    co_return too_large(413, "body", options.max_body_bytes);
  if (request.expects_continue && buffer_.empty()) {
    std::string interim(kInterim);
    const bool sent = co_await send(std::move(interim), {});
    if (!sent) close();
  }
  enter(Phase::body, options.body_timeout);
  const std::size_t length = request.content_length;
  while (buffer_.size() < length) {
    if (!limits::make_body_room(*place_, buffer_, length, kReadBytes)) co_return out_of_memory();
    const bool more = co_await fill(std::min(kReadBytes, length - buffer_.size()));
    if (!more) co_return std::nullopt;
  }
  request.body = limits::take_front(buffer_, length);
  co_return std::nullopt;
}

/// What the work returned, or a problem when it threw or the pool is full.
Awaitable<std::optional<Response>> Session::on_pool(Work work, Lane lane, bool next) {
  enter_work();
  finished_.expires_at(Clock::time_point::max());
  // The socket thread reads `result` only after the pool has posted back to it.
  auto result = std::make_shared<std::optional<Response>>();
  auto self = shared_from_this();
  auto task = [self, result, work = std::move(work)]() mutable {
    *result = guarded(self->state_, work);
    const Executor executor = self->stream_->socket().get_executor();
    asio::post(executor, [session = std::move(self)] { session->finished_.cancel(); });
  };
  WorkerPool& pool = state_.pool_of(lane);
  const bool taken = next ? pool.submit_next(std::move(task)) : pool.submit(std::move(task));
  if (!taken) co_return busy(lane);
  co_await finished_.async_wait(kAwait);
  co_return std::move(*result);
}

Awaitable<bool> Session::sleep_until(Clock::time_point when) {
  if (!woken_) {
    wake_.expires_at(when);
    co_await wake_.async_wait(kAwait);
  }
  const bool woken = std::exchange(woken_, false);
  co_return woken;
}

Awaitable<Response> Session::resolve(std::shared_ptr<Deferred> deferred) {
  const auto until = Clock::now() + deferred->wait();
  for (;;) {
    woken_ = false;
    const bool last = Clock::now() >= until || state_.stopping || peer_gone();
    Work poll = [deferred, last] { return deferred->poll(last); };
    std::optional<Response> answer = co_await on_pool(std::move(poll));
    if (answer) co_return std::move(*answer);
    if (last)
      co_return plain_problem(500, "internal",
                              "No response was ready at the end of the wait. Please report this.");
    co_await sleep_until(until);
  }
}

/// Does the work on the pool, as soon as that has room; false when it threw or the connection ends.
Awaitable<bool> Session::pull(Work work, Lane lane) {
  const bool next =
      lane == Lane::long_running;  // it stands behind the others; waiting outside would starve it
  for (;;) {
    const std::optional<Response> failed = co_await on_pool(work, lane, next);
    if (!failed) co_return true;
    if (failed->status != 503 || state_.stopping || !stream_->socket().is_open()) co_return false;
    co_await sleep_until(Clock::now() + kPoolRetry);
  }
}

Awaitable<void> Session::stream(Response response) {
  const auto feed = response.feed;
  std::string head = format_response_head(response, false);
  bool open = co_await send(std::move(head), {});
  auto silent_until = Clock::now() + state_.options.heartbeat;
  while (open && !peer_gone()) {
    woken_ = false;
    auto batch = std::make_shared<EventFeed::Batch>();
    Work next = [feed, batch] {
      *batch = feed->next();
      return std::nullopt;
    };
    const bool pulled = co_await pull(std::move(next));
    if (!pulled) break;
    std::string bytes;
    for (const SseEvent& event : batch->events) bytes += format_sse(event);
    // Wakes that bring this client nothing do not count: a silent connection is what proxies cut.
    if (bytes.empty() && Clock::now() >= silent_until) bytes = kHeartbeat;
    if (!bytes.empty()) {
      open = co_await send(std::move(bytes), {});
      silent_until = Clock::now() + state_.options.heartbeat;
    }
    if (!open || batch->ended || state_.stopping) break;
    if (batch->more || batch->events.size() >= EventFeed::kMaxBatch) continue;
    enter_work();
    co_await sleep_until(silent_until);
  }
  co_await linger();
}

/// False when the body is not complete: the connection must then end.
Awaitable<bool> Session::send_chunks(std::string head, std::shared_ptr<BodySource> source, Lane lane) {
  bool open = co_await send(std::move(head), {});
  while (open && !state_.stopping) {
    auto piece = std::make_shared<schema::Result<std::string>>();
    Work next = [source, piece] {
      *piece = source->next();
      return std::nullopt;
    };
    const bool pulled = co_await pull(std::move(next), lane);
    if (!pulled) co_return false;
    if (!*piece) {
      state_.log(fmt::format("a response was cut off: {}", piece->error().describe()));
      co_return false;
    }
    const bool last = (*piece)->empty();
    std::string size = fmt::format("{:x}\r\n", (*piece)->size());
    std::string bytes = std::move(**piece) + "\r\n";
    open = co_await send(std::move(size), std::move(bytes));
    if (last) co_return open;
  }
  co_return false;
}

Awaitable<bool> Session::send(std::string head, std::string body) {
  enter(Phase::writing, state_.options.write_timeout);
  const std::array<asio::const_buffer, 2> bytes{asio::buffer(head), asio::buffer(body)};
  const bool sent = co_await stream_->write(bytes);
  co_return sent;
}

/// Answers without having read the whole request, so the connection cannot be used again.
Awaitable<void> Session::refuse(Response problem, bool with_body) {
  std::string().swap(buffer_);  // what came of the request takes no memory while the answer is on its way
  std::string head = format_response_head(problem, false);
  if (!with_body) problem.body.clear();
  const bool sent = co_await send(std::move(head), std::move(problem.body));
  if (sent) {
    co_await linger();
  }
}

/// Closing with unread bytes resets the connection and may destroy the answer on its way, so what
/// the client still sends is read and dropped for a moment.
Awaitable<void> Session::linger() {
  enter(Phase::lingering, kLingerTime);
  co_await stream_->end_writing();
  for (std::size_t dropped = 0; dropped < kLingerBytes; dropped += buffer_.size()) {
    buffer_.clear();
    const bool more = co_await fill(kReadBytes);
    if (!more) break;
  }
}

}  // namespace driftgate::net
