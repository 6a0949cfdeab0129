#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/net/message.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// Request line and header fields, checked.
struct RequestHead {
  std::string method;
  std::string path;                                        ///< as sent, still percent-encoded, no query
  std::vector<std::pair<std::string, std::string>> query;  ///< decoded, in order
  int minor_version = 1;                                   ///< HTTP/1.x
  Headers headers;
  std::uint64_t content_length = 0;
  bool keep_alive = true;
  bool expects_continue = false;
  std::string remote_address;  ///< numeric, of the peer
  std::any context;            ///< what Handler::before_body wants to find again in handle

  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const {
    return find_header(headers, name);
  }
  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view name) const;
};

struct Request : RequestHead {
  std::string body;
  /// Of long work (Lane::long_running): nobody waits for the answer any more.
  std::stop_token stop{};
};

inline constexpr std::size_t kMaxHeaderFields = 100;

/// Reads a request head, the bytes up to and with the empty line. It accepts only what cannot be read
/// in two ways (RFC 9112 with every leniency off; docs/design/evidence.md, "Limits on what comes in"): origin
/// form, CRLF line ends, exactly one Host (none is allowed in HTTP/1.0), at most one Content-Length and one
/// Authorization, no Transfer-Encoding, no folded lines. `invalid_argument` says what was wrong; the
/// connection must then be closed.
[[nodiscard]] schema::Result<RequestHead> parse_request_head(std::string_view bytes);

}  // namespace driftgate::net
