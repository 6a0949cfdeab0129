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

  /// "host:port", IPv6 in brackets.
  [[nodiscard]] std::string authority() const;
  /// The same for the Host header: without the port where it is the scheme's own.
  [[nodiscard]] std::string host_field() const;
  /// "http://host:port" or "https://…", no path.
  [[nodiscard]] std::string base() const;
};

/// Reads "http[s]://host[:port][/path[?query]]"; without a port it is 80, or 443 of https. `invalid_argument`
/// for user info, fragments, spaces, control characters, bad ports and other schemes.
[[nodiscard]] schema::Result<Url> parse_url(std::string_view text);

/// The base URL of an engine as it is kept, "http[s]://host:port[/prefix]", from what a person writes: a
/// "/v1" at the end is left out, since requests bring their own. `invalid_argument` for a query, and for a
/// path with an empty, "." or ".." part.
[[nodiscard]] schema::Result<std::string> engine_base_url(std::string_view text);

/// Joins a base ("/v1" or "/") and a path ("/models") with exactly one slash.
[[nodiscard]] std::string join_target(std::string_view base, std::string_view path);

/// Percent-encodes everything but unreserved characters (RFC 3986, section 2.3).
[[nodiscard]] std::string percent_encode(std::string_view text);

/// Decodes %XX; `invalid_argument` for a cut or non-hexadecimal escape and for %00.
[[nodiscard]] schema::Result<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

}  // namespace driftgate::net
