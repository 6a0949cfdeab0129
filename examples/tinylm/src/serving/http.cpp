#include "examples/tinylm/src/serving/http.hpp"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <ctime>

namespace tinylm {
namespace {

namespace http = boost::beast::http;

/// "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" of now.
std::string date_line() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[48];
  return {text, std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts)};
}

HttpFailure failure_of(const boost::system::error_code& error) {
  if (error == http::error::body_limit) return {413, "the body is larger than the limit"};
  if (error == http::error::header_limit) return {431, "the header is larger than 16 KB"};
  return {400, "this is not an HTTP/1.1 message: " + error.message()};
}

std::string text_of(boost::core::string_view view) {
  return {view.data(), view.size()};
}

// Passes the buffer to the parser. Returns true when the parser needs no more of it before new bytes arrive.
template <typename Parser>
std::expected<bool, HttpFailure> feed(Parser& parser, std::string& buffer) {
  while (!buffer.empty() && !parser.is_done()) {
    boost::system::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(buffer), error);
    buffer.erase(0, used);
    if (error == http::error::need_more) return true;
    if (error) return std::unexpected(failure_of(error));
  }
  return !parser.is_done();
}

}  // namespace

std::expected<bool, HttpFailure> HttpConnection::fill(Milliseconds timeout) {
  std::array<char, 16384> block;
  const auto got = socket_.receive(block, timeout);
  if (!got) return std::unexpected(HttpFailure{408, got.error().message});
  buffer_.append(block.data(), *got);
  return *got > 0;
}

std::expected<std::optional<HttpRequest>, HttpFailure> HttpConnection::read_request(Milliseconds idle,
                                                                                    Milliseconds timeout) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(kMaxRequestBytes);
  parser.eager(true);
  bool started = !buffer_.empty(), continued = false;
  while (true) {
    const auto hungry = feed(parser, buffer_);
    if (!hungry) return std::unexpected(hungry.error());
    if (!*hungry) break;
    if (parser.is_header_done() && !continued && parser.get()[http::field::expect] == "100-continue") {
      continued = true;
      if (!socket_.send_all("HTTP/1.1 100 Continue\r\n\r\n", timeout)) return std::nullopt;
    }
    const auto more = fill(started ? timeout : idle);
    if (!more && !started) return std::nullopt;
    if (!more) return std::unexpected(more.error());
    if (!*more) return std::nullopt;  // closed: an incomplete request gets no response
    started = true;
  }
  auto message = parser.release();
  return HttpRequest{text_of(message.method_string()), text_of(message.target()), std::move(message.body()),
                     message.keep_alive(), message.version() >= 11};
}

std::expected<HttpResponse, HttpFailure> HttpConnection::read_response(Milliseconds timeout) {
  http::response_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(kMaxResponseBytes);
  parser.eager(true);
  while (true) {
    const auto hungry = feed(parser, buffer_);
    if (!hungry) return std::unexpected(hungry.error());
    if (!*hungry) break;
    const auto more = fill(timeout);
    if (!more) return std::unexpected(more.error());
    if (*more) continue;
    if (!parser.got_some())
      return std::unexpected(HttpFailure{0, "the connection was closed without a response"});
    boost::system::error_code error;
    parser.put_eof(error);
    if (error || !parser.is_done()) return std::unexpected(HttpFailure{0, "the response is incomplete"});
    break;
  }
  auto message = parser.release();
  return HttpResponse{static_cast<int>(message.result_int()), text_of(message[http::field::content_type]),
                      std::move(message.body()), message.keep_alive()};
}

std::string http_response(int status, std::string_view content_type, std::string_view body, bool keep_alive) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string out =
      "HTTP/1.1 " + std::to_string(status) + " " + text_of(reason) + "\r\n" + date_line() + "Content-Type: ";
  out += content_type;
  out += "\r\nContent-Length: " + std::to_string(body.size());
  out += keep_alive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
  out += body;
  return out;
}

std::string http_stream_head(bool chunked) {
  return "HTTP/1.1 200 OK\r\n" + date_line() +
         "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n" +
         (chunked ? "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
                  : "Connection: close\r\n\r\n");
}

std::string http_chunk(std::string_view data) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string size;
  for (std::size_t n = data.size(); n != 0; n /= 16) size.insert(size.begin(), kHex[n % 16]);
  return (size.empty() ? "0" : size) + "\r\n" + std::string(data) + "\r\n";
}

}  // namespace tinylm
