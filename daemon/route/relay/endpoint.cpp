#include "daemon/route/relay/endpoint.hpp"

#include <algorithm>
#include <utility>

#include "daemon/base/ascii.hpp"
#include "daemon/base/authority.hpp"
#include "daemon/route/relay/engine_pass.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxPrefixBytes = 1'024;
constexpr std::string_view kScheme = "http://";
constexpr std::string_view kTlsScheme = "https://";
constexpr std::uint16_t kPort = 80;
constexpr std::uint16_t kTlsPort = 443;

/// Nothing, or parts that each follow a slash; as net::engine_base_url leaves them.
bool is_prefix(std::string_view path) {
  const auto plain = [](char c) { return base::is_alphanumeric(c, "/-._~"); };
  return path.empty() || (path.size() <= kMaxPrefixBytes && path.starts_with('/') && !path.ends_with('/') &&
                          !path.contains("//") && std::ranges::all_of(path, plain));
}

}  // namespace

bool Endpoint::has_key() const {
  return pass != nullptr && !pass->access().key_file.empty();
}

std::string_view Endpoint::host_field() const {
  const std::string_view whole = authority;
  return port == (tls ? kTlsPort : kPort) ? whole.substr(0, whole.rfind(':')) : whole;
}

schema::Result<Endpoint> parse_authority(std::string_view text) {
  auto read = base::parse_authority(text, text);
  if (!read || !read->port || read->host.size() > kMaxHostBytes)
    return schema::failf(schema::ErrorCode::invalid_argument, "'{}' is not host:port, such as 127.0.0.1:8081",
                         text);
  return Endpoint{std::move(read->host), *read->port, std::string(text)};
}

schema::Result<Endpoint> parse_engine_url(std::string_view url) {
  const bool tls = url.starts_with(kTlsScheme);
  const auto refused = [url](std::string_view why) {
    return schema::failf(schema::ErrorCode::invalid_argument, "engine URL '{}' {}", url, why);
  };
  if (!tls && !url.starts_with(kScheme)) return refused("must have the form http[s]://host:port[/path]");
  const auto rest = url.substr(tls ? kTlsScheme.size() : kScheme.size());
  const auto end = std::min(rest.find('/'), rest.size());
  auto endpoint = parse_authority(rest.substr(0, end));
  if (!endpoint) return endpoint;
  if (endpoint->port == 0) return refused("has port 0; use the port that the engine listens on");
  if (!is_prefix(rest.substr(end))) return refused("has a path that no engine is registered under");
  endpoint->tls = tls;
  endpoint->prefix = rest.substr(end);
  return endpoint;
}

}  // namespace driftgate::route
