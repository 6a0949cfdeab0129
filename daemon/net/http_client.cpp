#include "daemon/net/http_client.hpp"

// g++ 12.2 with -fsanitize=address sees an uninitialised boost::optional in Beast where there is none.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <utility>

#include "daemon/net/socket.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

namespace http = boost::beast::http;
using schema::ErrorCode;
using schema::fail;
using ParserError = boost::beast::error_code;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kMaxInterimResponses = 8;

std::unexpected<schema::Error> parse_failure(const ParserError& ec, const Url& base) {
  if (ec == http::error::header_limit || ec == http::error::body_limit)
    return schema::failf(ErrorCode::limit_exceeded, "the response from {} is larger than allowed",
                         base.authority());
  if (ec == http::error::partial_message || ec == http::error::end_of_stream)
    return schema::failf(ErrorCode::unavailable, "{} closed the connection before its response was complete",
                         base.authority());
  return schema::failf(ErrorCode::invalid_document, "the response from {} is not valid HTTP/1.1: {}",
                       base.authority(), ec.message());
}

std::string format_request(const ClientRequest& request, const Url& base, const ClientOptions& options) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, base.host_field());
  for (const Header& header : options.headers) out += header.name + ": " + header.value + "\r\n";
  for (const Header& header : request.headers) out += header.name + ": " + header.value + "\r\n";
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT")
    out += fmt::format("Content-Length: {}\r\n", request.body.size());
  out += options.keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return out + request.body;
}

bool clean(const ClientRequest& request, const Headers& more) {
  const auto good = [](std::string_view text, bool space_allowed = false) {
    return std::ranges::none_of(text, [space_allowed](char c) {
      return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f || (!space_allowed && c == ' ');
    });
  };
  const auto good_header = [&](const Header& header) {
    return good(header.name) && good(header.value, true);
  };
  return good(request.method) && good(request.target) && request.target.starts_with('/') &&
         std::ranges::all_of(request.headers, good_header) && std::ranges::all_of(more, good_header);
}

}  // namespace

/// Beast's parser, its events collected in a ClientResponse or passed on.
class HttpClient::ResponseParser final : public http::basic_parser<false> {
 public:
  ResponseParser(const ClientOptions& options, const OnBody* on_body) : on_body_(on_body) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(options.max_head_bytes));
    if (options.max_body_bytes == 0)
      body_limit(boost::none);
    else
      body_limit(options.max_body_bytes);
  }
  ClientResponse response;
  bool stopped = false;  ///< the reader of the body wants no more

 private:
  using View = boost::beast::string_view;
  void on_request_impl(http::verb, View, View, int, ParserError&) override {}
  void on_response_impl(int code, View, int, ParserError&) override { response.status = code; }
  void on_field_impl(http::field, View name, View value, ParserError&) override {
    response.headers.push_back({std::string(name), std::string(value)});
  }
  void on_header_impl(ParserError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ParserError&) override {}
  std::size_t on_body_impl(View bytes, ParserError&) override {
    take({bytes.data(), bytes.size()});
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, View, ParserError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, View bytes, ParserError&) override {
    take({bytes.data(), bytes.size()});
    return bytes.size();
  }
  void on_finish_impl(ParserError&) override {}

  void take(std::string_view bytes) {
    const bool success = response.status >= 200 && response.status < 300;
    if (on_body_ == nullptr || !success)
      response.body += bytes;
    else if (!stopped)
      stopped = !(*on_body_)(bytes);
  }
  const OnBody* on_body_;
};

HttpClient::HttpClient(Url base, ClientOptions options)
    : base_(std::move(base)), options_(std::move(options)) {}

schema::Result<void> HttpClient::connect(const Deadline& deadline) {
  pending_.clear();
  auto socket = TRY(Socket::connect(base_.host, base_.port, options_.accept_address,
                                    deadline.within(options_.connect_timeout)));
  if (base_.tls) TRY(socket.start_tls(base_.host, options_.tls, deadline));
  socket_ = std::move(socket);
  return {};
}

schema::Result<void> HttpClient::write(const ClientRequest& request, const Deadline& deadline) {
  const auto connected = socket_.open() ? schema::Result<void>{} : connect(deadline);
  if (!connected)
    return schema::wrap(connected.error(), fmt::format("no connection to {}", base_.authority()));
  return socket_.write(format_request(request, base_, options_), deadline);
}

/// Feeds the parser until one answer is complete, or the reader stopped it.
schema::Result<void> HttpClient::read(ResponseParser& parser, const Deadline& deadline) {
  std::array<char, kReadBytes> buffer;
  for (;;) {
    while (!pending_.empty() && !parser.is_done()) {
      ParserError ec;
      const std::size_t used = parser.put(boost::asio::const_buffer(pending_.data(), pending_.size()), ec);
      pending_.erase(0, used);
      if (ec == http::error::need_more) break;
      if (ec) return parse_failure(ec, base_);
    }
    if (parser.is_done() || parser.stopped) return {};
    const auto n = TRY(socket_.read(buffer.data(), buffer.size(), deadline.within(options_.idle_timeout)));
    if (n == 0) {
      ParserError ec;
      if (parser.got_some())
        parser.put_eof(ec);
      else
        ec = http::error::end_of_stream;
      if (ec) return parse_failure(ec, base_);
      return {};
    }
    received_ = true;
    pending_.append(buffer.data(), n);
  }
}

schema::Result<ClientResponse> HttpClient::receive(const OnBody* on_body, const Deadline& deadline,
                                                   bool head_only) {
  for (int interim = 0; interim < kMaxInterimResponses; ++interim) {
    ResponseParser parser(options_, on_body);
    if (head_only) parser.skip(true);
    TRY(read(parser, deadline));
    if (parser.response.status >= 100 && parser.response.status < 200) continue;
    if (!options_.keep_alive || parser.stopped || !parser.keep_alive()) socket_.close();
    return std::move(parser.response);
  }
  return schema::failf(ErrorCode::invalid_document, "{} sent too many interim (1xx) responses",
                       base_.authority());
}

schema::Result<ClientResponse> HttpClient::exchange(const ClientRequest& request, const OnBody* on_body) {
  if (!clean(request, options_.headers))
    return fail(ErrorCode::invalid_argument,
                "the request's method, target or a header contains a forbidden character");
  const Deadline deadline(options_.total_timeout, options_.cancel);
  for (;;) {
    const bool reused = socket_.open();
    received_ = false;
    const auto written = write(request, deadline);
    // A server may refuse a body while it is being sent: its answer then waits to be read.
    auto response = written || socket_.open()
                        ? receive(on_body, deadline, request.method == "HEAD")
                        : schema::Result<ClientResponse>(std::unexpected(written.error()));
    if (response) return response;
    const bool nothing_came = !received_ && response.error().code == ErrorCode::unavailable;
    socket_.close();
    if (reused && nothing_came) continue;
    return response;
  }
}

}  // namespace driftgate::net
