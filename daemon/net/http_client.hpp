#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/net/message.hpp"
#include "daemon/net/socket.hpp"
#include "daemon/net/tls_files.hpp"
#include "daemon/net/url.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// Limits and policy of a client. A time of 0 means no such limit.
struct ClientOptions {
  std::chrono::milliseconds connect_timeout{2'000};  ///< resolve and connect
  std::chrono::milliseconds total_timeout{30'000};   ///< whole exchange, connect included
  std::chrono::milliseconds idle_timeout{0};         ///< between two reads; for streams without a total
  std::size_t max_head_bytes = 64 * 1024;
  std::size_t max_body_bytes = 16 * 1024 * 1024;  ///< also of all streamed bytes; 0 = no limit
  bool keep_alive = false;                        ///< keep the connection for the next request
  int cancel = -1;  ///< a descriptor: once it is readable exchanges fail as `unavailable`; -1: none
  TlsClientFiles tls{};                           ///< for an https base
  Headers headers{};                              ///< sent with every request, before its own
  /// Asked with each resolved numeric address ("127.0.0.1", "::1") before connecting; false skips the
  /// address. Empty accepts all. See outgoing.hpp for the policy of engines and webhooks.
  std::function<bool(std::string_view address)> accept_address{};
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";  ///< path and query
  Headers headers{};         ///< Host, Content-Length and Connection are added by the client
  std::string body{};
};

struct ClientResponse {
  int status = 0;
  Headers headers;
  std::string body;  ///< empty for streamed exchanges that had a 2xx status
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
};

/// Called with body bytes as they come; false ends the exchange (which is no error).
using OnBody = std::function<bool(std::string_view bytes)>;

/// A small blocking HTTP/1.1 client for one host, under TLS when its URL says https. Follows no redirects,
/// sends no cookies. One thread at a time; make one client per thread.
///
/// Errors: `unavailable` (cannot resolve or connect, connection cut), `deadline_exceeded`,
/// `limit_exceeded` (answer larger than allowed), `forbidden` (address refused by the policy),
/// `invalid_document` (the answer is not HTTP/1.1). Every HTTP status is a response, not an error.
class HttpClient {
 public:
  explicit HttpClient(Url base, ClientOptions options = {});

  /// One exchange, the answer held in memory. With `keep_alive`, a kept connection that breaks
  /// before the first byte of the answer is opened once more and the request sent again.
  [[nodiscard]] schema::Result<ClientResponse> send(const ClientRequest& request) {
    return exchange(request, nullptr);
  }

  /// One exchange whose body goes to `on_body` piece by piece (de-chunked) when the status is 2xx;
  /// other bodies are collected in the response. Used for server-sent events (see sse.hpp).
  [[nodiscard]] schema::Result<ClientResponse> stream(const ClientRequest& request, const OnBody& on_body) {
    return exchange(request, &on_body);
  }

  [[nodiscard]] const Url& base() const { return base_; }

 private:
  class ResponseParser;
  schema::Result<void> connect(const Deadline& deadline);
  schema::Result<void> write(const ClientRequest& request, const Deadline& deadline);
  schema::Result<void> read(ResponseParser& parser, const Deadline& deadline);
  schema::Result<ClientResponse> receive(const OnBody* on_body, const Deadline& deadline, bool head_only);
  schema::Result<ClientResponse> exchange(const ClientRequest& request, const OnBody* on_body);

  Url base_;
  ClientOptions options_;
  Socket socket_;
  std::string pending_;    ///< bytes read beyond the last answer
  bool received_ = false;  ///< any byte of the current answer
};

}  // namespace driftgate::net
