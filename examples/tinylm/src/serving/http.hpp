#pragma once
/// HTTP/1.1 messages on a socket, under limits.

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/tinylm/src/serving/socket.hpp"

namespace tinylm {

inline constexpr std::size_t kMaxHeaderBytes = 16U << 10U;
inline constexpr std::size_t kMaxRequestBytes = 1U << 20U;
inline constexpr std::size_t kMaxResponseBytes = 4U << 20U;

struct HttpRequest {
  std::string method, target, body;
  bool keep_alive = false;
  bool chunks_allowed = false;  ///< HTTP/1.1: the response may be chunked
};

struct HttpResponse {
  int status = 0;
  std::string content_type, body;
  bool keep_alive = false;
};

/// Why a message could not be read. `status`: the HTTP status of the response, 0 for no response.
struct HttpFailure {
  int status = 0;
  std::string message;
};

class HttpConnection {
 public:
  explicit HttpConnection(Socket socket) : socket_(std::move(socket)) {}
  /// The next request; none when the peer closed between requests or stayed idle.
  std::expected<std::optional<HttpRequest>, HttpFailure> read_request(Milliseconds idle,
                                                                      Milliseconds timeout);
  /// Each wait for bytes lasts at most `timeout`.
  std::expected<HttpResponse, HttpFailure> read_response(Milliseconds timeout);
  Socket& socket() { return socket_; }

 private:
  std::expected<bool, HttpFailure> fill(Milliseconds timeout);

  Socket socket_;
  std::string buffer_;
};

std::string http_response(int status, std::string_view content_type, std::string_view body, bool keep_alive);
/// The header of an event stream; with `chunked` its parts are sent by http_chunk, and an empty one ends it.
std::string http_stream_head(bool chunked);
std::string http_chunk(std::string_view data);

}  // namespace tinylm
