#include "daemon/base/authority.hpp"

#include <algorithm>
#include <boost/url/parse.hpp>
#include <charconv>

#include "daemon/base/ascii.hpp"
#include "schema/failf.hpp"

namespace driftgate::base {
namespace {

bool is_name_char(char c) {
  return is_alphanumeric(c, "-._");
}

}  // namespace

schema::Result<Authority> parse_authority(std::string_view text, std::string_view whole) {
  const auto refuse = [&](std::string_view what) {
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "{} in '{}': write host:port, or [address]:port for IPv6, with a port up to 65535",
                         what, whole);
  };
  const auto read = boost::urls::parse_authority(text);
  if (!read) return refuse("bad host or port");
  if (read->has_userinfo()) return refuse("user name or password");
  const bool is_name = read->host_type() == boost::urls::host_type::name;
  const auto name = read->encoded_host();
  if (name.empty()) return refuse("no host");
  if (read->host_type() == boost::urls::host_type::ipvfuture ||
      (is_name && !std::ranges::all_of(name, is_name_char)))
    return refuse("bad host name");

  Authority found{read->host_address(), std::nullopt};
  if (!read->has_port()) return found;
  if (read->port().empty()) return refuse("empty port");
  // Not port_number(), which wraps around above 65535 (Boost 1.81).
  const auto digits = read->port();
  std::uint16_t port = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), port).ec != std::errc())
    return refuse("bad port");
  found.port = port;
  return found;
}

bool is_host(std::string_view text) {
  // Each request has one, mostly a name or an IPv4 address and a port of up to four digits.
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto port = colon == std::string_view::npos ? "0" : text.substr(colon + 1);
  if (!name.empty() && std::ranges::all_of(name, is_name_char) && !port.empty() && port.size() < 5 &&
      std::ranges::all_of(port, is_digit))
    return true;
  return parse_authority(text, text).has_value();
}

}  // namespace driftgate::base
