#include "daemon/route/relay/client_stream.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "daemon/limits/body_room.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kReadBytes = 16u << 10;  // so much may lie here before memory of bodies is charged
constexpr std::size_t kMaxLingerBytes = 256u << 10;
constexpr std::size_t kMaxSentAhead = 16;  // requests of one connection before others have their turn
constexpr std::chrono::milliseconds kLinger{1'000};
constexpr std::string_view kBodiesOnTheirWay =
    "the memory for request bodies is used up; try again in a second";
using limits::Use;

Deadlines::Time after_ms(std::uint32_t milliseconds) {
  return Deadlines::Time::clock::now() + std::chrono::milliseconds(milliseconds);
}

}  // namespace

ClientStream::ClientStream(TcpSocket socket, Deadlines& deadlines, const RouterOptions& options,
                           std::unique_ptr<Place> place)
    : socket_(std::move(socket)),
      options_(options),
      place_(std::move(place)),
      watch_(deadlines, [this] { late(); }) {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void ClientStream::close() {
  watch_.clear();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

/// A write that the client does not take makes the connection one that may give way, and ends it later.
void ClientStream::late() {
  if (!writing_ || Deadlines::Time::clock::now() >= cut_at_) return close();
  place_->use(Use::stalled);
  watch_.set(cut_at_);
}

void ClientStream::evict() {
  if (place_->in_use() == Use::active) return;
  if (place_->in_use() == Use::body) {
    const auto text = refusal_answer({503, "body_memory", std::string(kBodiesOnTheirWay)}, false);
    // One attempt without waiting: the client has not sent its request, so it may not read either.
    static_cast<void>(::send(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  close();
}

ClientStream::Read ClientStream::refuse_for_memory(ClientRequest& request) {
  std::string().swap(request.body_bytes);
  std::string().swap(received_);
  return refuse(503, "body_memory", std::string(kBodiesOnTheirWay));
}

ClientStream::Read ClientStream::refuse(int status, std::string code, std::string message) {
  refusal_ = {status, std::move(code), std::move(message)};
  return Read::refused;
}

/// Takes what has come; false when nothing more will.
bool ClientStream::receive(std::size_t most) {
  const Received got = receive_now(socket_, most);
  append(received_, got.bytes);
  return got.arrival == Arrival::bytes || got.arrival == Arrival::nothing;
}

Task<bool> ClientStream::read_more(std::size_t most) {
  auto [failure] = co_await socket_.async_wait(TcpSocket::wait_read, kAwait);
  co_return !failure && receive(most);
}

/// A connection that waits keeps no memory of what it sent.
void ClientStream::forget(ClientRequest& request) {
  request.head = RequestHead();
  request.body = {};
  std::string().swap(request.head_bytes);
  std::string().swap(request.body_bytes);
  if (used_ == received_.size()) {
    give_back(std::move(received_));
  } else {
    received_.erase(0, used_);
  }
  used_ = 0;
  whole_ = false;
}

Task<ClientStream::Read> ClientStream::read_request(ClientRequest& request) {
  serving_ = false;
  forget(request);
  sent_ahead_ = received_.empty() ? 0 : sent_ahead_ + 1;
  if (sent_ahead_ > kMaxSentAhead) {
    sent_ahead_ = 0;
    co_await asio::post(socket_.get_executor(), kAwait);
  }
  place_->use(Use::waiting);
  idle_ = received_.empty();
  watch_.set(after_ms(idle_ ? options_.idle_ms : options_.header_ms));
  Read read = Read::request;
  std::size_t scanned = 0;
  while (!find_head(request, scanned, read)) {
    auto [failure] = co_await socket_.async_wait(TcpSocket::wait_read, kAwait);
    if (failure || !receive(kReadBytes)) {
      read = Read::closed;
      break;
    }
    if (idle_ && !received_.empty()) {
      watch_.set(after_ms(options_.header_ms));
      idle_ = false;
    }
  }
  if (read == Read::request && !whole_) {
    read = co_await read_body(request);
  }
  idle_ = false;
  watch_.clear();
  place_->use(Use::active);
  serving_ = true;
  co_return read;
}

/// True when the end of the head is here, or there will be none: `read` then says what to do.
bool ClientStream::find_head(ClientRequest& request, std::size_t& scanned, Read& read) {
  std::size_t end = 0;
  const auto scan = scan_head(received_, scanned, end);
  const auto size = scan == HeadScan::complete ? end : received_.size();
  if (scan == HeadScan::bad) {
    read = refuse(400, "bad_request", "a line of the request head does not end with CRLF");
  } else if (size > kMaxRequestHeadBytes) {
    read = refuse(431, "head_too_large",
                  fmt::format("the request head is larger than {} bytes", kMaxRequestHeadBytes));
  } else if (scan == HeadScan::complete) {
    read = take_head(request, end);
  } else {
    scanned = size;
    return false;
  }
  return true;
}

/// Most requests have come as a whole by now and stay where they are; of another one the head is put aside.
ClientStream::Read ClientStream::take_head(ClientRequest& request, std::size_t end) {
  auto head = parse_request_head(std::string_view(received_).substr(0, end));
  if (!head) return refuse(400, "bad_request", head.error().message);
  request.head = std::move(*head);
  const auto length = request.head.content_length.value_or(0);
  if (length > options_.max_body_bytes) {
    return refuse(413, "body_too_large",
                  fmt::format("the request body is larger than {} bytes", options_.max_body_bytes));
  }
  whole_ = !request.head.chunked && received_.size() - end >= length;
  if (whole_) {
    request.body = std::string_view(received_).substr(end, length);
    used_ = end + length;
    return Read::request;
  }
  request.head_bytes = received_.substr(0, end);
  received_.erase(0, end);
  head = parse_request_head(request.head_bytes);  // views of where it is now
  if (!head) return refuse(400, "bad_request", head.error().message);
  request.head = std::move(*head);
  return Read::request;
}

Task<ClientStream::Read> ClientStream::read_body(ClientRequest& request) {
  if (request.head.expects_continue && received_.empty()) {
    Pieces go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
    bool sent = write_now(go_on);
    if (!sent) {
      sent = co_await write(go_on);
    }
    if (!sent) co_return Read::closed;
  }
  place_->use(Use::body);
  watch_.set(after_ms(options_.body_ms));
  if (request.head.chunked) {
    const Read read = co_await read_chunked(request);
    co_return read;
  }
  const std::size_t length = request.head.content_length.value_or(0);
  while (received_.size() < length) {
    if (!limits::make_body_room(*place_, received_, length, kReadBytes)) co_return refuse_for_memory(request);
    const std::size_t most = std::min(received_.capacity(), length) - received_.size();
    const bool more = co_await read_more(most);
    if (!more) co_return Read::closed;
  }
  request.body_bytes = limits::take_front(received_, length);
  request.body = request.body_bytes;
  co_return Read::request;
}

Task<ClientStream::Read> ClientStream::read_chunked(ClientRequest& request) {
  ChunkedDecoder decoder;
  for (;;) {
    received_.erase(0, decoder.feed(received_, request.body_bytes));
    if (decoder.failed()) co_return refuse(400, "bad_request", "the chunked request body is malformed");
    if (request.body_bytes.size() > options_.max_body_bytes) {
      co_return refuse(413, "body_too_large",
                       fmt::format("the request body is larger than {} bytes", options_.max_body_bytes));
    }
    if (decoder.done()) {
      request.body = request.body_bytes;
      co_return Read::request;
    }
    if (!place_->hold(request.body_bytes.capacity() + received_.capacity()))
      co_return refuse_for_memory(request);
    const bool more = co_await read_more(kReadBytes);
    if (!more) co_return Read::closed;
  }
}

bool ClientStream::write_now(Pieces& pieces) {
  if (gone_) return false;
  const Sent sent = send_now(socket_, pieces);
  if (sent == Sent::failed) gone_ = true;
  return sent == Sent::all;
}

Task<bool> ClientStream::write(Pieces pieces) {
  if (gone_) co_return false;
  const auto buffers = buffers_of(pieces);
  const auto begin = Deadlines::Time::clock::now();
  cut_at_ = begin + std::chrono::milliseconds(options_.write_stall_ms);
  writing_ = true;
  watch_.set(std::min(cut_at_, begin + limits::kStalledAfter));
  auto [failure, sent] = co_await asio::async_write(socket_, buffers, kAwait);
  watch_.clear();
  writing_ = false;
  place_->use(Use::active);
  if (failure) gone_ = true;
  co_return !failure;
}

void ClientStream::watch(std::shared_ptr<void> keeper) {
  if (watching_ || received_.size() > used_) return;
  watching_ = true;
  socket_.async_wait(TcpSocket::wait_read,
                     [this, held = std::move(keeper)](const boost::system::error_code& failure) {
                       readable(failure, held);
                     });
}

void ClientStream::readable(const boost::system::error_code& failure, std::shared_ptr<void> keeper) {
  watching_ = false;
  if (failure || !serving_ || gone_ || !socket_.is_open()) return;
  char byte = 0;
  const auto got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return;  // the next request came early: an end behind it shows when it is read
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return watch(std::move(keeper));
  gone_ = true;
  if (on_gone_) on_gone_();
}

Task<void> ClientStream::linger() {
  boost::system::error_code ignored;
  socket_.shutdown(TcpSocket::shutdown_send, ignored);
  place_->use(Use::waiting);
  watch_.set(Deadlines::Time::clock::now() + kLinger);
  for (std::size_t read = 0; read < kMaxLingerBytes;) {
    auto [failure] = co_await socket_.async_wait(TcpSocket::wait_read, kAwait);
    if (failure) break;
    const Received got = receive_now(socket_);
    if (got.arrival == Arrival::end || got.arrival == Arrival::failure) break;
    read += got.bytes.size();
  }
  watch_.clear();
}

}  // namespace driftgate::route
