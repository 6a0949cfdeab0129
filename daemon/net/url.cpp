#include "daemon/net/url.hpp"

#include <fmt/core.h>

#include <utility>

#include "daemon/base/authority.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;
using schema::fail;

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::uint16_t kTlsPort = 443;
constexpr std::string_view kScheme = "http://";
constexpr std::string_view kTlsScheme = "https://";
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

schema::Result<void> check_characters(std::string_view text) {
  if (text.size() > kMaxUrlBytes)
    return fail(ErrorCode::invalid_argument,
                fmt::format("URL of {} bytes: at most {}", text.size(), kMaxUrlBytes));
  for (const char c : text)
    if (c <= ' ' || c == 0x7f || c == '\\' || c == '#' || c == '@')
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("URL '{}' holds a space, control character, '\\', '#' or '@': write http://host:port",
                      text));
  return {};
}

/// Reads what follows the scheme into `url`.
schema::Result<Url> parse_rest(std::string_view rest, std::string_view text, Url url) {
  const std::size_t slash = rest.find_first_of("/?");
  auto authority = TRY(base::parse_authority(rest.substr(0, slash), text));
  if (authority.port == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("bad port in '{}': write a number from 1 to 65535", text));
  url.host = std::move(authority.host);
  url.port = authority.port.value_or(url.port);
  if (slash != std::string_view::npos) {
    url.target = rest.substr(slash);
    if (url.target.starts_with('?')) url.target.insert(0, "/");
  }
  return url;
}

}  // namespace

std::string Url::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string Url::base() const {
  return (tls ? "https://" : "http://") + authority();
}

schema::Result<Url> parse_url(std::string_view text) {
  TRY(check_characters(text));
  if (text.starts_with(kTlsScheme))
    return fail(
        ErrorCode::unsupported,
        fmt::format("'{}': TLS is not spoken here; put a local proxy in front and use its http:// URL",
                    text));
  if (!text.starts_with(kScheme))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not a URL of the form http://host:port", text));
  return parse_rest(text.substr(kScheme.size()), text, Url{});
}

schema::Result<Url> parse_daemon_url(std::string_view text) {
  if (!text.starts_with(kTlsScheme)) return parse_url(text);
  TRY(check_characters(text));
  Url url;
  url.tls = true;
  url.port = kTlsPort;
  return parse_rest(text.substr(kTlsScheme.size()), text, std::move(url));
}

std::string join_target(std::string_view base, std::string_view path) {
  while (base.ends_with('/')) base.remove_suffix(1);
  while (path.starts_with('/')) path.remove_prefix(1);
  return fmt::format("{}/{}", base, path);
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            c == '-' || c == '.' || c == '_' || c == '~';
    if (unreserved) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHexDigits[byte >> 4U];
    out += kHexDigits[byte & 0xFU];
  }
  return out;
}

schema::Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
      continue;
    }
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0 || high * 16 + low == 0)
      return fail(ErrorCode::invalid_argument, fmt::format("bad percent escape at byte {} of '{}'", i, text));
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace driftgate::net
