#include "daemon/net/url.hpp"

#include <fmt/core.h>

#include <charconv>

namespace driftgate::net {
namespace {

using schema::ErrorCode;
using schema::fail;

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::uint16_t kTlsPort = 443;
constexpr std::string_view kScheme = "http://";
constexpr std::string_view kTlsScheme = "https://";
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

bool is_address_char(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

schema::Result<std::uint16_t> parse_port(std::string_view text, std::string_view url) {
  unsigned value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || value == 0 || value > 65'535)
    return fail(ErrorCode::invalid_argument,
                fmt::format("bad port in '{}': write a number from 1 to 65535", url));
  return static_cast<std::uint16_t>(value);
}

/// Splits "host:port" or "[v6]:port" into `url`.
schema::Result<void> parse_authority(std::string_view authority, std::string_view text, Url& url) {
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos)
      return fail(ErrorCode::invalid_argument, fmt::format("no ']' after the IPv6 address in '{}'", text));
    url.host = authority.substr(1, close - 1);
    for (const char c : url.host)
      if (!is_address_char(c))
        return fail(ErrorCode::invalid_argument, fmt::format("bad IPv6 address in '{}'", text));
    const std::string_view rest = authority.substr(close + 1);
    if (!rest.empty() && !rest.starts_with(':'))
      return fail(ErrorCode::invalid_argument, fmt::format("bytes after ']' in '{}'", text));
    port = rest.empty() ? rest : rest.substr(1);
    if (!rest.empty() && port.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("empty port in '{}'", text));
  } else {
    const std::size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    for (const char c : url.host)
      if (!is_host_char(c))
        return fail(ErrorCode::invalid_argument, fmt::format("bad host name in '{}'", text));
    if (colon != std::string_view::npos) {
      port = authority.substr(colon + 1);
      if (port.empty()) return fail(ErrorCode::invalid_argument, fmt::format("empty port in '{}'", text));
    }
  }
  if (url.host.empty()) return fail(ErrorCode::invalid_argument, fmt::format("no host in '{}'", text));
  if (port.empty()) return {};
  const auto number = parse_port(port, text);
  if (!number) return std::unexpected(number.error());
  url.port = *number;
  return {};
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
  const auto parsed = parse_authority(rest.substr(0, slash), text, url);
  if (!parsed) return std::unexpected(parsed.error());
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
  const auto clean = check_characters(text);
  if (!clean) return std::unexpected(clean.error());
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
  const auto clean = check_characters(text);
  if (!clean) return std::unexpected(clean.error());
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
