#include "daemon/base/authority.hpp"

#include <algorithm>
#include <boost/url/parse.hpp>

#include "daemon/base/ascii.hpp"
#include "schema/failf.hpp"

namespace driftgate::base {

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
      (is_name && !std::ranges::all_of(name, [](char c) { return is_alphanumeric(c, "-._"); })))
    return refuse("bad host name");

  Authority found{read->host_address(), std::nullopt};
  if (!read->has_port()) return found;
  if (read->port().empty()) return refuse("empty port");
  found.port = read->port_number();  // 0 for a number above 65535 too
  if (found.port == 0 && !std::ranges::all_of(read->port(), [](char c) { return c == '0'; }))
    return refuse("bad port");
  return found;
}

}  // namespace driftgate::base
