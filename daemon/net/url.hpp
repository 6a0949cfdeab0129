#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::net {

/// The parts of an absolute http or https URL.
struct Url {
  std::string host;  ///< name or address; IPv6 without brackets
  std::uint16_t port = 80;
  std::string target = "/";  ///< path and query, starts with '/'
  bool tls = false;          ///< https

  /// "host:port", IPv6 in brackets: what the Host header carries.
  [[nodiscard]] std::string authority() const;
  /// "http://host:port" or "https://…", no path.
  [[nodiscard]] std::string base() const;
};

/// Reads "http://host[:port][/path[?query]]". `invalid_argument` for user info, fragments, spaces,
/// control characters and bad ports; `unsupported` for other schemes: TLS to engines ends in front of
/// driftgate.
[[nodiscard]] schema::Result<Url> parse_url(std::string_view text);
/// The same for the daemon's own URL and those of webhooks, which may be https; the port is then 443 unless
/// one is given.
[[nodiscard]] schema::Result<Url> parse_daemon_url(std::string_view text);

/// Joins a base ("/v1" or "/") and a path ("/models") with exactly one slash.
[[nodiscard]] std::string join_target(std::string_view base, std::string_view path);

/// Percent-encodes everything but unreserved characters (RFC 3986, section 2.3).
[[nodiscard]] std::string percent_encode(std::string_view text);

/// Decodes %XX; `invalid_argument` for a cut or non-hexadecimal escape and for %00.
[[nodiscard]] schema::Result<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

}  // namespace driftgate::net
