#include "daemon/net/url.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/url/encode.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/pct_string_view.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <boost/url/scheme.hpp>
#include <utility>

#include "daemon/base/ascii.hpp"
#include "daemon/base/authority.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::uint16_t kPlainPort = 80;
constexpr std::uint16_t kTlsPort = 443;
constexpr std::string_view kApiVersion = "/v1";

bool is_prefix_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::ranges::all_of(part, [](char c) { return base::is_alphanumeric(c, "-._~"); });
}

}  // namespace

std::string Url::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string Url::host_field() const {
  auto text = authority();
  if (port == (tls ? kTlsPort : kPlainPort)) text.erase(text.rfind(':'));
  return text;
}

std::string Url::base() const {
  return (tls ? "https://" : "http://") + authority();
}

schema::Result<Url> parse_url(std::string_view text) {
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
        "'{}' is not a URL of the form http[s]://host:port[/path], without user name and fragment", text);
  Url url;
  url.tls = read->scheme_id() == boost::urls::scheme::https;
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

schema::Result<std::string> engine_base_url(std::string_view text) {
  const auto url = TRY(parse_url(text));
  std::string_view path = url.target;
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with(kApiVersion)) path.remove_suffix(kApiVersion.size());
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);  // the slash
    const auto end = std::min(rest.find('/'), rest.size());
    if (!is_prefix_part(rest.substr(0, end)))
      return schema::failf(
          ErrorCode::invalid_argument,
          "the path of the engine's URL '{}' must be parts of letters, digits, '-', '.', '_' and "
          "'~', without a query",
          text);
    rest.remove_prefix(end);
  }
  return url.base() + std::string(path);
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
