#include "daemon/net/url.hpp"

#include <fmt/core.h>

#include <boost/url/encode.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/pct_string_view.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <boost/url/scheme.hpp>
#include <utility>

#include "daemon/base/authority.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::uint16_t kTlsPort = 443;

schema::Result<Url> parse(std::string_view text, bool tls_allowed) {
  if (text.size() > kMaxUrlBytes)
    return schema::failf(ErrorCode::invalid_argument, "the URL has {} bytes; at most {} are allowed",
                         text.size(), kMaxUrlBytes);
  const auto read = boost::urls::parse_uri(text);
  // Boost 1.81 takes what follows a port without a slash, as in http://a:1x, for a path.
  const bool is_http = read && (read->scheme_id() == boost::urls::scheme::http ||
                                read->scheme_id() == boost::urls::scheme::https);
  if (!is_http || read->has_fragment() || read->has_userinfo() ||
      !(read->encoded_path().empty() || read->encoded_path().starts_with('/')))
    return schema::failf(
        ErrorCode::invalid_argument,
        "'{}' is not a URL of the form http://host:port[/path], without user name and fragment", text);
  Url url;
  url.tls = read->scheme_id() == boost::urls::scheme::https;
  if (url.tls && !tls_allowed)
    return schema::failf(ErrorCode::unsupported,
                         "'{}': TLS is not supported here; use the http:// URL of a local proxy in front",
                         text);
  auto authority = TRY(base::parse_authority(read->encoded_authority(), text));
  if (authority.port == 0)
    return schema::failf(ErrorCode::invalid_argument, "bad port in '{}': write a number from 1 to 65535",
                         text);
  url.host = std::move(authority.host);
  url.port = authority.port.value_or(url.tls ? kTlsPort : url.port);
  url.target = read->encoded_target();
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
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
  return parse(text, false);
}

schema::Result<Url> parse_daemon_url(std::string_view text) {
  return parse(text, true);
}

std::string join_target(std::string_view base, std::string_view path) {
  while (base.ends_with('/')) base.remove_suffix(1);
  while (path.starts_with('/')) path.remove_prefix(1);
  return fmt::format("{}/{}", base, path);
}

std::string percent_encode(std::string_view text) {
  return boost::urls::encode(text, boost::urls::unreserved_chars);
}

schema::Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  const auto escaped = boost::urls::make_pct_string_view(text);
  if (!escaped) return schema::failf(ErrorCode::invalid_argument, "invalid percent escape in '{}'", text);
  std::string decoded = escaped->decode(boost::urls::encoding_opts(plus_is_space));
  if (decoded.find('\0') != std::string::npos)
    return schema::failf(ErrorCode::invalid_argument, "escaped NUL byte (%00) in '{}'", text);
  return decoded;
}

}  // namespace driftgate::net
