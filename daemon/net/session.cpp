#include "daemon/net/session.hpp"

#include <fmt/core.h>
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
constexpr int kProceed = 0;  ///< status of a Response that lets the request go on

Response proceed() {
  Response response;
  response.status = kProceed;
  return response;
}

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
  Response response = plain_problem(
      503, "unavailable", "Too many bodies of requests are on their way at once. Try again in a second.");
  response.headers.push_back({"Retry-After", "1"});
  return response;
}

/// The answer to HEAD is that to GET without its body (RFC 9110, section 9.3.2).
bool has_body(const RequestHead& head) {
  return head.method != "HEAD";
}

Response guarded(const ServerState& state, const std::function<Response()>& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    state.log(fmt::format("a request handler threw: {}", e.what()));
    return plain_problem(500, "internal",
                         "A fault inside the daemon; its log has the details. Please report it.");
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
void Session::give_way() {
  if (place_->in_use() == Use::active) return;
  if (phase_ == Phase::body) {
    const Response full = out_of_memory();
    stream_->write_now(format_response_head(full, false) + full.body);
  }
  close();
}

void Session::close() {
  boost::system::error_code ignored;
  stream_->socket().close(ignored);
  wake();
}

void Session::sweep(Clock::time_point now) {
  if (!stream_->socket().is_open() || phase_ == Phase::working) return;
  if (phase_ == Phase::writing && now - entered_ >= limits::kStalledAfter) place_->use(Use::stalled);
  if (now < deadline_) return;
  if (phase_ == Phase::head || phase_ == Phase::body) {
    const Response late =
        plain_problem(408, "request_timeout", "The request did not arrive within its time limit.");
    const std::string bytes = format_response_head(late, false) + late.body;
    stream_->write_now(bytes);
  }
  close();
}

void Session::wake() {
  woken_ = true;
  wake_.cancel();
}

void Session::stop() {
  if (phase_ == Phase::idle)
    close();
  else
    wake();
}

bool Session::peer_gone() {
  if (!stream_->socket().is_open()) return true;
  char byte = 0;
  return ::recv(stream_->socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Awaitable<void> Session::run() {
  const Executor executor = stream_->socket().get_executor();
  place_->begin([executor, weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (const auto session = weak.lock()) session->give_way();
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

Awaitable<bool> Session::serve_one() {
  Request request;
  const bool has_head = co_await read_head(request);
  if (!has_head) co_return false;
  request.remote_address = remote_address_;
  Handler& handler = state_.handler;
  if (request.content_length > 0) {
    Work check = [&handler, &request] {
      auto refusal = handler.before_body(request);
      return refusal ? std::move(*refusal) : proceed();
    };
    Response verdict = co_await on_pool(std::move(check));
    if (verdict.status != kProceed) {
      const bool sent = co_await refuse(std::move(verdict), has_body(request));
      co_return sent;
    }
    const bool whole = co_await read_body(request);
    if (!whole) co_return false;
  }
  Work work = [&handler, &request] {
    if (request.content_length == 0) {
      auto refusal = handler.before_body(request);
      if (refusal) return std::move(*refusal);
    }
    return handler.handle(request);
  };
  Response response = co_await on_pool(std::move(work));
  if (response.deferred) {
    auto deferred = response.deferred;
    response = co_await resolve(std::move(deferred));
  }
  if (response.feed && has_body(request)) {
    co_await stream(std::move(response));
    co_return false;
  }
  const bool keep =
      request.keep_alive && !response.close && !state_.stopping && !place_->gave_way();
  std::string head = format_response_head(response, keep);
  if (!has_body(request)) {
    const bool sent = co_await send(std::move(head), {});
    co_return sent&& keep;
  }
  if (response.source) {
    auto source = response.source;
    const bool complete = co_await send_chunks(std::move(head), std::move(source));
    co_return complete&& keep;
  }
  const bool sent = co_await send(std::move(head), std::move(response.body));
  co_return sent&& keep;
}

Awaitable<bool> Session::fill(std::size_t most) {
  std::array<char, kReadBytes> bytes;
  const auto size = co_await stream_->read_some(asio::buffer(bytes, most));
  if (size) buffer_.append(bytes.data(), *size);
  co_return size.has_value();
}

Awaitable<bool> Session::read_head(RequestHead& head) {
  if (buffer_.empty())
    enter(Phase::idle, state_.options.idle_timeout);
  else
    enter(Phase::head, state_.options.head_timeout);
  std::size_t size = 0;
  HeadState found = find_head(buffer_, size);
  while (found == HeadState::incomplete && buffer_.size() <= state_.options.max_head_bytes) {
    const bool more = co_await fill(kReadBytes);
    if (!more) co_return false;
    if (phase_ == Phase::idle) enter(Phase::head, state_.options.head_timeout);
    found = find_head(buffer_, size);
  }
  if (found != HeadState::broken && size > state_.options.max_head_bytes) {
    Response large = plain_problem(
        431, "limit_exceeded",
        fmt::format("The request's head is larger than {} bytes.", state_.options.max_head_bytes));
    co_await refuse(std::move(large), true);
    co_return false;
  }
  auto parsed = parse_request_head(std::string_view(buffer_).substr(0, size));
  if (!parsed) {
    Response bad = plain_problem(400, "bad_request", "Not accepted: " + parsed.error().message + ".");
    co_await refuse(std::move(bad), true);
    co_return false;
  }
  buffer_.erase(0, size);
  head = std::move(*parsed);
  co_return true;
}

Awaitable<bool> Session::read_body(Request& request) {
  if (request.content_length > state_.options.max_body_bytes) {
    Response large = plain_problem(
        413, "limit_exceeded",
        fmt::format("The request's body is larger than {} bytes.", state_.options.max_body_bytes));
    co_await refuse(std::move(large), has_body(request));
    co_return false;
  }
  if (request.expects_continue && buffer_.empty()) {
    std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool sent = co_await send(std::move(interim), {});
    if (!sent) co_return false;
  }
  enter(Phase::body, state_.options.body_timeout);
  const std::size_t length = request.content_length;
  while (buffer_.size() < length) {
    if (!limits::make_body_room(*place_, buffer_, length, kReadBytes)) {
      Response full = out_of_memory();
      co_await refuse(std::move(full), has_body(request));
      co_return false;
    }
    const bool more = co_await fill(std::min(kReadBytes, length - buffer_.size()));
    if (!more) co_return false;
  }
  if (buffer_.size() == length) {
    request.body = std::exchange(buffer_, {});
    co_return true;
  }
  request.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  co_return true;
}

Awaitable<Response> Session::on_pool(Work work) {
  enter_work();
  finished_.expires_at(Clock::time_point::max());
  // The socket thread reads `result` only after the pool has posted back to it.
  auto result = std::make_shared<std::optional<Response>>();
  auto self = shared_from_this();
  const bool taken = state_.pool.submit([self, result, work = std::move(work)]() mutable {
    *result = guarded(self->state_, work);
    const Executor executor = self->stream_->socket().get_executor();
    asio::post(executor, [session = std::move(self)] { session->finished_.cancel(); });
  });
  if (!taken) {
    Response busy =
        plain_problem(503, "unavailable", "The daemon is busy: its queue is full. Try again in a second.");
    busy.headers.push_back({"Retry-After", "1"});
    co_return busy;
  }
  co_await finished_.async_wait(kAwait);
  co_return std::move(**result);
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
    Work poll = [deferred, last] {
      auto answer = deferred->poll(last);
      return answer ? std::move(*answer) : proceed();
    };
    Response answer = co_await on_pool(std::move(poll));
    if (answer.status != kProceed) co_return answer;
    if (last) {
      Response missing =
          plain_problem(500, "internal", "A deferred answer gave none at its end. Please report it.");
      co_return missing;
    }
    co_await sleep_until(until);
  }
}

Awaitable<void> Session::stream(Response response) {
  const auto feed = response.feed;
  std::string head = format_response_head(response, false);
  bool open = co_await send(std::move(head), {});
  while (open && !peer_gone()) {
    woken_ = false;
    auto batch = std::make_shared<EventFeed::Batch>();
    Work pull = [feed, batch] {
      *batch = feed->next();
      return proceed();
    };
    const Response pulled = co_await on_pool(std::move(pull));
    const bool busy = pulled.status == 503;
    if (pulled.status != kProceed && !busy) break;
    std::string bytes;
    for (const SseEvent& event : batch->events) bytes += format_sse(event);
    if (!bytes.empty()) {
      open = co_await send(std::move(bytes), {});
    }
    if (!open || batch->ended || state_.stopping) break;
    if (batch->events.size() >= EventFeed::kMaxBatch) continue;
    enter_work();
    const auto pause = busy ? kPoolRetry : state_.options.heartbeat;
    const bool woken = co_await sleep_until(Clock::now() + pause);
    if (!woken && !busy) {
      std::string heartbeat = ": heartbeat\n\n";
      open = co_await send(std::move(heartbeat), {});
    }
  }
  co_await linger();
}

/// False when the body is not complete: the connection must then end.
Awaitable<bool> Session::send_chunks(std::string head, std::shared_ptr<BodySource> source) {
  bool open = co_await send(std::move(head), {});
  while (open && !state_.stopping) {
    auto piece = std::make_shared<schema::Result<std::string>>();
    Work pull = [source, piece] {
      *piece = source->next();
      return proceed();
    };
    const Response pulled = co_await on_pool(std::move(pull));
    if (pulled.status == 503) {
      const bool woken = co_await sleep_until(Clock::now() + kPoolRetry);
      (void)woken;
      continue;
    }
    if (pulled.status != kProceed) co_return false;
    if (!*piece) {
      state_.log(fmt::format("an answer was cut off: {}", piece->error().describe()));
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
Awaitable<bool> Session::refuse(Response problem, bool with_body) {
  std::string().swap(buffer_);  // what came of the request takes no memory while the answer is on its way
  std::string head = format_response_head(problem, false);
  if (!with_body) problem.body.clear();
  const bool sent = co_await send(std::move(head), std::move(problem.body));
  if (sent) {
    co_await linger();
  }
  co_return false;
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
