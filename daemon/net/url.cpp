#include "daemon/net/url.hpp"

#include <fmt/core.h>

#include <charconv>
#include <utility>

#include "daemon/base/ascii.hpp"
#include "daemon/base/authority.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::uint16_t kTlsPort = 443;
constexpr std::string_view kScheme = "http://";
constexpr std::string_view kTlsScheme = "https://";

schema::Result<void> check_characters(std::string_view text) {
  if (text.size() > kMaxUrlBytes)
    return schema::failf(ErrorCode::invalid_argument, "the URL has {} bytes; at most {} are allowed",
                         text.size(), kMaxUrlBytes);
  for (const char c : text)
    if (c <= ' ' || c == 0x7f || c == '\\' || c == '#' || c == '@')
      return schema::failf(
          ErrorCode::invalid_argument,
          "URL '{}' contains a space, control character, '\\', '#' or '@': use http://host:port", text);
  return {};
}

/// Reads what follows the scheme into `url`.
schema::Result<Url> parse_rest(std::string_view rest, std::string_view text, Url url) {
  const std::size_t slash = rest.find_first_of("/?");
  auto authority = TRY(base::parse_authority(rest.substr(0, slash), text));
  if (authority.port == 0)
    return schema::failf(ErrorCode::invalid_argument, "bad port in '{}': write a number from 1 to 65535",
                         text);
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
    return schema::failf(ErrorCode::unsupported,
                         "'{}': TLS is not supported here; use the http:// URL of a local proxy in front",
                         text);
  if (!text.starts_with(kScheme))
    return schema::failf(ErrorCode::invalid_argument, "'{}' is not a URL of the form http://host:port", text);
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
    if (base::is_alphanumeric(c, "-._~"))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

schema::Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' && plus_is_space ? ' ' : text[i];
      continue;
    }
    const auto digits = text.substr(i + 1, 2);
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (error != std::errc() || end != digits.data() + 2 || byte == 0)
      return schema::failf(ErrorCode::invalid_argument, "invalid percent escape at byte {} of '{}'", i, text);
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

}  // namespace driftgate::net
