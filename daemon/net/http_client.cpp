#include "daemon/net/http_client.hpp"

// g++ 12.2 with -fsanitize=address sees an uninitialised boost::optional in Beast where there is none.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <fmt/core.h>

#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <utility>

#include "daemon/net/socket.hpp"

namespace driftgate::net {
namespace {

namespace http = boost::beast::http;
using schema::ErrorCode;
using schema::fail;
using ParserError = boost::beast::error_code;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kMaxInterimResponses = 8;

/// Beast's parser, its events collected in a ClientResponse or passed on.
class ResponseParser final : public http::basic_parser<false> {
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

std::unexpected<schema::Error> parse_failure(const ParserError& ec, const Url& base) {
  if (ec == http::error::header_limit || ec == http::error::body_limit)
    return fail(ErrorCode::limit_exceeded,
                fmt::format("the answer of {} is larger than allowed", base.authority()));
  if (ec == http::error::partial_message || ec == http::error::end_of_stream)
    return fail(ErrorCode::unavailable,
                fmt::format("{} closed the connection within its answer", base.authority()));
  return fail(ErrorCode::invalid_document,
              fmt::format("the answer of {} is not HTTP/1.1: {}", base.authority(), ec.message()));
}

std::string format_request(const ClientRequest& request, const Url& base, bool keep_alive) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, base.authority());
  for (const Header& header : request.headers) out += header.name + ": " + header.value + "\r\n";
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT")
    out += fmt::format("Content-Length: {}\r\n", request.body.size());
  out += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return out + request.body;
}

bool clean(const ClientRequest& request) {
  const auto bad = [](std::string_view text, bool space_allowed) {
    for (const char c : text)
      if ((c >= 0 && c < ' ' && c != '\t') || c == 0x7f || (!space_allowed && c == ' ')) return true;
    return false;
  };
  if (bad(request.method, false) || bad(request.target, false) || !request.target.starts_with('/'))
    return false;
  for (const Header& header : request.headers)
    if (bad(header.name, false) || bad(header.value, true)) return false;
  return true;
}

}  // namespace

struct HttpClient::Impl {
  Url base;
  ClientOptions options;
  Socket socket;
  std::string pending;    ///< bytes read beyond the last answer
  bool received = false;  ///< any byte of the current answer

  schema::Result<void> write(const ClientRequest& request, const Deadline& deadline) {
    if (!socket.open()) {
      pending.clear();
      auto connected = Socket::connect(base.host, base.port, options.accept_address,
                                       deadline.sooner(Deadline(options.connect_timeout)));
      if (!connected)
        return schema::wrap(connected.error(), fmt::format("no connection to {}", base.authority()));
      socket = std::move(*connected);
      if (base.tls) {
        const auto secured = socket.start_tls(base.host, options.tls, deadline);
        if (!secured) {
          socket.close();
          return schema::wrap(secured.error(), fmt::format("no connection to {}", base.authority()));
        }
      }
    }
    return socket.write(format_request(request, base, options.keep_alive), deadline);
  }

  /// Feeds the parser until one answer is complete, or the reader stopped it.
  schema::Result<void> read(ResponseParser& parser, const Deadline& deadline) {
    std::array<char, kReadBytes> buffer;
    for (;;) {
      while (!pending.empty() && !parser.is_done()) {
        ParserError ec;
        const std::size_t used = parser.put(boost::asio::const_buffer(pending.data(), pending.size()), ec);
        pending.erase(0, used);
        if (ec == http::error::need_more) break;
        if (ec) return parse_failure(ec, base);
      }
      if (parser.is_done() || parser.stopped) return {};
      const auto n =
          socket.read(buffer.data(), buffer.size(), deadline.sooner(Deadline(options.idle_timeout)));
      if (!n) return std::unexpected(n.error());
      if (*n == 0) {
        ParserError ec;
        if (parser.got_some())
          parser.put_eof(ec);
        else
          ec = http::error::end_of_stream;
        if (ec) return parse_failure(ec, base);
        return {};
      }
      received = true;
      pending.append(buffer.data(), *n);
    }
  }

  schema::Result<ClientResponse> receive(const OnBody* on_body, const Deadline& deadline, bool head_only) {
    for (int interim = 0; interim < kMaxInterimResponses; ++interim) {
      ResponseParser parser(options, on_body);
      if (head_only) parser.skip(true);
      TRY(read(parser, deadline));
      if (parser.response.status >= 100 && parser.response.status < 200) continue;
      if (!options.keep_alive || parser.stopped || !parser.keep_alive()) socket.close();
      return std::move(parser.response);
    }
    return fail(ErrorCode::invalid_document,
                fmt::format("{} sends interim answers without end", base.authority()));
  }

  schema::Result<ClientResponse> exchange(const ClientRequest& request, const OnBody* on_body) {
    if (!clean(request))
      return fail(ErrorCode::invalid_argument,
                  "a request's method, target or header holds a forbidden character");
    const Deadline deadline(options.total_timeout);
    for (;;) {
      const bool reused = socket.open();
      received = false;
      const auto written = write(request, deadline);
      // A server may refuse a body while it is being sent: its answer then waits to be read.
      auto response = written || socket.open()
                          ? receive(on_body, deadline, request.method == "HEAD")
                          : schema::Result<ClientResponse>(std::unexpected(written.error()));
      if (response) return response;
      const bool nothing_came = !received && response.error().code == ErrorCode::unavailable;
      socket.close();
      if (reused && nothing_came) continue;
      return response;
    }
  }
};

HttpClient::HttpClient(Url base, ClientOptions options)
    : impl_(std::make_unique<Impl>(Impl{std::move(base), std::move(options), {}, {}, false})) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

schema::Result<ClientResponse> HttpClient::send(const ClientRequest& request) {
  return impl_->exchange(request, nullptr);
}

schema::Result<ClientResponse> HttpClient::stream(const ClientRequest& request, const OnBody& on_body) {
  return impl_->exchange(request, &on_body);
}

const Url& HttpClient::base() const {
  return impl_->base;
}

}  // namespace driftgate::net
